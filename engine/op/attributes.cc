// SPDX-License-Identifier: Apache-2.0
#include "engine/op/attributes.h"

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/view.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

enum class Type { kInt, kFloat, kString, kFloats, kStrings };

constexpr int64_t kNewest = std::numeric_limits<int64_t>::max();
constexpr unsigned kLstm = 1, kGru = 2, kRnn = 4, kAll = 7;

struct Rule {
  Dialect dialect;
  std::string_view name;
  Type type;
  unsigned kinds;  // of kLstm, kGru, kRnn
  int64_t first_version = 1;
  int64_t last_version = kNewest;
};

constexpr std::array<Rule, 17> kRules = {{
    {Dialect::kOnnx, "activation_alpha", Type::kFloats, kAll},
    {Dialect::kOnnx, "activation_beta", Type::kFloats, kAll},
    {Dialect::kOnnx, "activations", Type::kStrings, kAll},
    {Dialect::kOnnx, "clip", Type::kFloat, kAll},
    {Dialect::kOnnx, "direction", Type::kString, kAll},
    {Dialect::kOnnx, "hidden_size", Type::kInt, kAll},
    {Dialect::kOnnx, "input_forget", Type::kInt, kLstm},
    {Dialect::kOnnx, "layout", Type::kInt, kAll, 14},
    {Dialect::kOnnx, "linear_before_reset", Type::kInt, kGru, 3},
    {Dialect::kOnnx, "output_sequence", Type::kInt, kAll, 1, 6},
    {Dialect::kOpenVino, "activations", Type::kStrings, kAll},
    {Dialect::kOpenVino, "activations_alpha", Type::kFloats, kAll},
    {Dialect::kOpenVino, "activations_beta", Type::kFloats, kAll},
    {Dialect::kOpenVino, "clip", Type::kFloat, kAll},
    {Dialect::kOpenVino, "direction", Type::kString, kAll},
    {Dialect::kOpenVino, "hidden_size", Type::kInt, kAll},
    {Dialect::kOpenVino, "linear_before_reset", Type::kInt, kGru},
}};

unsigned KindBit(CellKind kind) { return kind == CellKind::kLstm ? kLstm : kind == CellKind::kGru ? kGru : kRnn; }

bool OfOperator(const Rule& rule, const OperatorVersion& op) {
  return rule.dialect == op.dialect && (rule.kinds & KindBit(op.kind)) != 0;
}

bool OfVersion(const Rule& rule, const OperatorVersion& op) {
  return OfOperator(rule, op) && rule.first_version <= op.version && op.version <= rule.last_version;
}

std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kInt:
      return "an int";
    case Type::kFloat:
      return "a float";
    case Type::kString:
      return "a string";
    case Type::kFloats:
      return "a list of floats";
    case Type::kStrings:
      return "a list of strings";
  }
  return "";
}

std::string_view TypeNameOf(const AttributeValue& value) {
  constexpr std::array<std::string_view, 6> kNames = {"a float",          "an int",         "a string",
                                                      "a list of floats", "a list of ints", "a list of strings"};
  return kNames[value.index()];
}

// An int may stand for a float, in a list too; nothing else is converted.
bool HasType(const AttributeValue& value, Type type) {
  switch (type) {
    case Type::kInt:
      return std::holds_alternative<int64_t>(value);
    case Type::kFloat:
      return std::holds_alternative<float>(value) || std::holds_alternative<int64_t>(value);
    case Type::kString:
      return std::holds_alternative<std::string>(value);
    case Type::kFloats:
      return std::holds_alternative<std::vector<float>>(value) || std::holds_alternative<std::vector<int64_t>>(value);
    case Type::kStrings:
      return std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

absl::Status CheckAttribute(const OperatorVersion& op, const std::string& name, const AttributeValue& value) {
  std::vector<absl::string_view> known;
  for (const Rule& rule : kRules) {
    if (OfVersion(rule, op)) known.push_back(View(rule.name));
    if (!OfOperator(rule, op) || rule.name != name) continue;
    if (!OfVersion(rule, op)) {
      const std::string when = rule.first_version > op.version
                                   ? absl::StrCat("from version ", rule.first_version, " on")
                                   : absl::StrCat("up to version ", rule.last_version);
      return FieldError(AttributeField(name), absl::StrCat(op.Name(), " has no attribute ", name, ", which exists ",
                                                           when, " only: leave it out or name such a version"));
    }
    if (HasType(value, rule.type)) return absl::OkStatus();
    return FieldError(AttributeField(name), absl::StrCat(name, " of ", op.Name(), " is ", View(TypeName(rule.type)),
                                                         ", but ", View(TypeNameOf(value)), " was given"));
  }
  // The list is complete here: no rule returned.
  return FieldError(AttributeField(name), absl::StrCat(op.Name(), " has no attribute ", Quoted(name), "; it takes ",
                                                       absl::StrJoin(known, ", ")));
}

template <typename T>
const T* Find(const std::map<std::string, AttributeValue>& attributes, const char* name) {
  const auto at = attributes.find(name);
  return at == attributes.end() ? nullptr : std::get_if<T>(&at->second);
}

std::vector<float> Floats(const std::map<std::string, AttributeValue>& attributes, const char* name) {
  if (const auto* floats = Find<std::vector<float>>(attributes, name)) return *floats;
  std::vector<float> values;
  if (const auto* ints = Find<std::vector<int64_t>>(attributes, name)) {
    for (int64_t value : *ints) values.push_back(static_cast<float>(value));
  }
  return values;
}

absl::Status ReadDirection(const OperatorVersion& op, std::string text, Direction& direction) {
  const std::string given = text;
  if (op.dialect == Dialect::kOpenVino) absl::AsciiStrToLower(&text);
  if (op.op_type == "GRU" && op.version == 1 && text == "foward") text = "forward";  // the schema's own misspelling
  if (text == "forward") {
    direction = Direction::kForward;
  } else if (text == "reverse") {
    direction = Direction::kReverse;
  } else if (text == "bidirectional") {
    direction = Direction::kBidirectional;
  } else {
    return FieldError(AttributeField("direction"),
                      absl::StrCat("direction is ", Quoted(given), "; expected forward, reverse or bidirectional",
                                   op.dialect == Dialect::kOnnx ? ", in lower case" : ""));
  }
  return absl::OkStatus();
}

absl::Status ReadClip(const OperatorVersion& op, float value, double& clip) {
  if (value > 0) {
    clip = static_cast<double>(value);
    return absl::OkStatus();
  }
  if (op.dialect == Dialect::kOpenVino) {
    if (value == 0) return absl::OkStatus();  // the default of OpenVINO's classes, written out in many stored models
    return FieldError(AttributeField("clip"),
                      absl::StrCat("clip is ", value, "; expected a positive number, or 0 for none"));
  }
  return FieldError(AttributeField("clip"),
                    absl::StrCat("clip is ", value, "; expected a positive number, or leave it out for none"));
}

absl::Status ReadLists(const std::map<std::string, AttributeValue>& attributes, const char* name,
                       std::vector<float>& values) {
  values = Floats(attributes, name);
  for (size_t k = 0; k < values.size(); ++k) {
    if (std::isnan(values[k])) {
      return FieldError(AttributeField(name), absl::StrCat("value ", k, " of ", name, " is NaN; expected a number"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRequired(const OperatorVersion& op, const std::map<std::string, AttributeValue>& attributes) {
  if (op.dialect == Dialect::kOnnx) return absl::OkStatus();
  for (const char* name : {"hidden_size", "direction"}) {
    if (!attributes.contains(name)) {
      return FieldError(AttributeField(name), absl::StrCat(op.Name(), " requires the attribute ", name));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadInts(const OperatorVersion& op, const std::map<std::string, AttributeValue>& attributes,
                      Attributes& out) {
  if (const auto* value = Find<int64_t>(attributes, "hidden_size")) {
    if (*value <= 0) {
      return FieldError(AttributeField("hidden_size"),
                        absl::StrCat("hidden_size is ", *value, "; expected a positive number"));
    }
    out.hidden_size = *value;
  }
  if (const auto* value = Find<int64_t>(attributes, "layout")) {
    if (*value != 0 && *value != 1) {
      return FieldError(AttributeField("layout"), absl::StrCat("layout is ", *value, "; expected 0 or 1"));
    }
    out.layout = *value;
  }
  if (const auto* value = Find<int64_t>(attributes, "input_forget")) out.input_forget = *value != 0;
  if (const auto* value = Find<int64_t>(attributes, "linear_before_reset")) {
    if (op.dialect == Dialect::kOpenVino && *value != 0 && *value != 1) {
      return FieldError(AttributeField("linear_before_reset"),
                        absl::StrCat("linear_before_reset is ", *value, "; expected 0 or 1 (a boolean)"));
    }
    out.linear_before_reset = *value != 0;
  }
  const bool has_output_sequence = op.dialect == Dialect::kOnnx && op.version < 7;
  const auto* output_sequence = Find<int64_t>(attributes, "output_sequence");
  out.y_by_default = !has_output_sequence || (output_sequence != nullptr && *output_sequence != 0);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Attributes> ReadAttributes(const OperatorVersion& op,
                                          const std::map<std::string, AttributeValue>& attributes) {
  for (const auto& [name, value] : attributes) {
    if (absl::Status status = CheckAttribute(op, name, value); !status.ok()) return status;
  }
  if (absl::Status status = CheckRequired(op, attributes); !status.ok()) return status;

  Attributes out;
  if (absl::Status status = ReadInts(op, attributes, out); !status.ok()) return status;
  if (const auto* text = Find<std::string>(attributes, "direction")) {
    if (absl::Status status = ReadDirection(op, *text, out.direction); !status.ok()) return status;
  }
  if (const auto* names = Find<std::vector<std::string>>(attributes, "activations")) out.activations = *names;
  const bool onnx = op.dialect == Dialect::kOnnx;
  absl::Status lists = ReadLists(attributes, onnx ? "activation_alpha" : "activations_alpha", out.alpha);
  if (lists.ok()) lists = ReadLists(attributes, onnx ? "activation_beta" : "activations_beta", out.beta);
  if (!lists.ok()) return lists;
  if (const auto* value = Find<float>(attributes, "clip")) {
    if (absl::Status status = ReadClip(op, *value, out.clip); !status.ok()) return status;
  } else if (const auto* whole = Find<int64_t>(attributes, "clip")) {
    if (absl::Status status = ReadClip(op, static_cast<float>(*whole), out.clip); !status.ok()) return status;
  }
  return out;
}

}  // namespace rnnserve
