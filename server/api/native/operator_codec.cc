// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/operator_codec.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"

namespace rnnserve {
namespace {

constexpr size_t kMaxTextBytes = 128;  // of domain, op_type and attribute names
constexpr size_t kMaxAttributes = 64;

absl::Status CheckText(std::string_view field, const std::string& text) {
  if (text.size() <= kMaxTextBytes) return absl::OkStatus();
  return FieldError(field, absl::StrCat("the text has ", text.size(), " bytes; at most ", kMaxTextBytes, " are taken"));
}

absl::StatusOr<AttributeValue> DecodeAttribute(const v1::Attribute& message, const std::string& path) {
  switch (message.value_case()) {
    case v1::Attribute::kF:
      return AttributeValue(message.f());
    case v1::Attribute::kI:
      return AttributeValue(int64_t{message.i()});
    case v1::Attribute::kS:
      return AttributeValue(message.s());
    case v1::Attribute::kFloats:
      return AttributeValue(std::vector<float>(message.floats().values().begin(), message.floats().values().end()));
    case v1::Attribute::kInts:
      return AttributeValue(std::vector<int64_t>(message.ints().values().begin(), message.ints().values().end()));
    case v1::Attribute::kStrings:
      return AttributeValue(
          std::vector<std::string>(message.strings().values().begin(), message.strings().values().end()));
    case v1::Attribute::VALUE_NOT_SET:
      break;
  }
  return FieldError(path, "the attribute has no value; set one of f, i, s, floats, ints, strings");
}

struct AttributeEncoder {
  v1::Attribute& message;
  void operator()(float value) const { message.set_f(value); }
  void operator()(int64_t value) const { message.set_i(value); }
  void operator()(const std::string& value) const { message.set_s(value); }
  void operator()(const std::vector<float>& values) const {
    message.mutable_floats()->mutable_values()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<int64_t>& values) const {
    message.mutable_ints()->mutable_values()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<std::string>& values) const {
    for (const std::string& value : values) message.mutable_strings()->add_values(value);
  }
};

}  // namespace

absl::StatusOr<OperatorDef> DecodeOperator(const v1::Operator& message, std::string_view path) {
  absl::Status status = CheckText(absl::StrCat(View(path), ".domain"), message.domain());
  if (status.ok()) status = CheckText(absl::StrCat(View(path), ".op_type"), message.op_type());
  if (!status.ok()) return status;
  const std::string attributes = absl::StrCat(View(path), ".attributes");
  if (message.attributes().size() > kMaxAttributes) {
    return FieldError(attributes, absl::StrCat("there are ", message.attributes().size(),
                                               " attributes; no operator has more than ", kMaxAttributes));
  }
  OperatorDef op;
  op.domain = message.domain();
  op.op_type = message.op_type();
  if (message.has_version()) op.version = message.version();
  if (message.has_opset()) op.opset = message.opset();
  for (const auto& [name, attribute] : message.attributes()) {
    if (status = CheckText(attributes, name); !status.ok()) return status;
    ASSIGN_OR_RETURN(AttributeValue value, DecodeAttribute(attribute, absl::StrCat(attributes, "[", name, "]")));
    op.attributes.emplace(name, std::move(value));
  }
  return op;
}

void EncodeOperator(const OperatorDef& op, v1::Operator& message) {
  message.set_domain(op.domain);
  message.set_op_type(op.op_type);
  if (op.version) message.set_version(*op.version);
  if (op.opset) message.set_opset(*op.opset);
  for (const auto& [name, value] : op.attributes) {
    std::visit(AttributeEncoder{(*message.mutable_attributes())[name]}, value);
  }
}

}  // namespace rnnserve
