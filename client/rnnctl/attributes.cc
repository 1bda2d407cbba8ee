// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/attributes.h"

#include <type_traits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "client/rnnctl/arguments.h"

namespace rnnserve::rnnctl {
namespace {

enum class Kind { kInt, kFloat, kString, kInts, kFloats, kStrings };

struct KindName {
  std::string_view name;
  Kind kind;
};
constexpr KindName kKinds[] = {{"int", Kind::kInt},   {"float", Kind::kFloat},   {"string", Kind::kString},
                               {"ints", Kind::kInts}, {"floats", Kind::kFloats}, {"strings", Kind::kStrings}};

// ONNX names, and those of OpenVINO that differ.
constexpr KindName kAttributes[] = {
    {"activation_alpha", Kind::kFloats}, {"activation_beta", Kind::kFloats},
    {"activations", Kind::kStrings},     {"activations_alpha", Kind::kFloats},
    {"activations_beta", Kind::kFloats}, {"clip", Kind::kFloat},
    {"direction", Kind::kString},        {"hidden_size", Kind::kInt},
    {"input_forget", Kind::kInt},        {"layout", Kind::kInt},
    {"linear_before_reset", Kind::kInt}, {"output_sequence", Kind::kInt},
};

std::string Names(std::span<const KindName> table) {
  return absl::StrJoin(table, ", ", [](std::string* out, const KindName& entry) { out->append(entry.name); });
}

const KindName* Find(std::span<const KindName> table, std::string_view name) {
  for (const KindName& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::StatusOr<Kind> KindOf(std::string_view name) {
  if (const KindName* known = Find(kAttributes, name)) return known->kind;
  std::vector<std::string_view> names;
  for (const KindName& entry : kAttributes) names.push_back(entry.name);
  const std::string_view nearest = Nearest(name, names);
  return UsageError(absl::StrCat("--attr ", View(name), ": unknown attribute",
                                 nearest.empty() ? absl::StrCat("; known are ", Names(kAttributes))
                                                 : absl::StrCat("; did you mean ", View(nearest), "?"),
                                 " (to send it all the same, say its kind: --attr ", View(name), ":int=1)"));
}

absl::Status WrongValue(std::string_view name, std::string_view expected, std::string_view value) {
  return UsageError(absl::StrCat("--attr ", View(name), ": expected ", View(expected), ", got '", View(value), "'"));
}

absl::StatusOr<int64_t> Int(std::string_view name, std::string_view text) {
  if (text == "true") return 1;  // OpenVINO writes linear_before_reset as a boolean
  if (text == "false") return 0;
  int64_t value = 0;
  if (!absl::SimpleAtoi(View(text), &value)) return WrongValue(name, "a whole number such as 1", text);
  return value;
}

absl::StatusOr<float> Float(std::string_view name, std::string_view text) {
  float value = 0;
  if (!absl::SimpleAtof(View(text), &value)) return WrongValue(name, "a number such as 3.5", text);
  return value;
}

template <typename T>
absl::StatusOr<AttributeValue> Wrap(absl::StatusOr<T> value) {
  if (!value.ok()) return value.status();
  return AttributeValue(*std::move(value));
}

template <typename T>
absl::StatusOr<AttributeValue> List(std::string_view name, std::string_view text,
                                    absl::StatusOr<T> (*parse)(std::string_view, std::string_view)) {
  std::vector<T> values;
  if (text.empty()) return AttributeValue(values);
  for (absl::string_view part : absl::StrSplit(View(text), ',')) {
    ASSIGN_OR_RETURN(T value, parse(name, {part.data(), part.size()}));
    values.push_back(std::move(value));
  }
  return AttributeValue(std::move(values));
}

absl::StatusOr<std::string> String(std::string_view, std::string_view text) { return std::string(text); }

absl::StatusOr<AttributeValue> ParseValue(Kind kind, std::string_view name, std::string_view text) {
  switch (kind) {
    case Kind::kInt:
      return Wrap(Int(name, text));
    case Kind::kFloat:
      return Wrap(Float(name, text));
    case Kind::kString:
      return AttributeValue(std::string(text));
    case Kind::kInts:
      return List<int64_t>(name, text, Int);
    case Kind::kFloats:
      return List<float>(name, text, Float);
    case Kind::kStrings:
      return List<std::string>(name, text, String);
  }
  return UsageError("unknown kind");
}

}  // namespace

absl::StatusOr<std::pair<std::string, AttributeValue>> ParseAttribute(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return UsageError(absl::StrCat("--attr ", View(text), ": expected NAME=VALUE, for example clip=3.5"));
  }
  std::string_view name = text.substr(0, equals);
  absl::StatusOr<Kind> kind = Kind::kInt;
  if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
    const KindName* named = Find(kKinds, name.substr(colon + 1));
    if (named == nullptr) {
      return UsageError(absl::StrCat("--attr ", View(name), ": unknown kind; known are ", Names(kKinds)));
    }
    kind = named->kind;
    name = name.substr(0, colon);
  } else {
    kind = KindOf(name);
  }
  if (!kind.ok()) return kind.status();
  ASSIGN_OR_RETURN(AttributeValue value, ParseValue(*kind, name, text.substr(equals + 1)));
  return std::pair(std::string(name), std::move(value));
}

absl::StatusOr<std::map<std::string, AttributeValue>> ParseAttributes(std::span<const std::string> texts) {
  std::map<std::string, AttributeValue> attributes;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(auto attribute, ParseAttribute(text));
    if (!attributes.insert(attribute).second) {
      return UsageError(absl::StrCat("--attr ", attribute.first, " is given twice"));
    }
  }
  return attributes;
}

std::string AttributeText(const AttributeValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
          return absl::StrCat(v);
        } else {
          return absl::StrJoin(v, ",");
        }
      },
      value);
}

}  // namespace rnnserve::rnnctl
