// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/node.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"

namespace rnnserve {
namespace {

constexpr std::array<std::string_view, 3> kRecurrent = {"LSTM", "GRU", "RNN"};
// Of all three operators; GRU and RNN end with initial_h.
constexpr std::array<std::string_view, 8> kInputs = {"X",         "W",         "R", "B", "sequence_lens",
                                                     "initial_h", "initial_c", "P"};

bool IsDefaultDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

absl::StatusOr<AttributeValue> Value(const onnx::AttributeProto& attribute) {
  if (!attribute.ref_attr_name().empty()) return BadFile("refers to an attribute of a function");
  switch (attribute.type()) {
    case onnx::AttributeProto::FLOAT:
      return attribute.f();
    case onnx::AttributeProto::INT:
      return attribute.i();
    case onnx::AttributeProto::STRING:
      return attribute.s();
    case onnx::AttributeProto::FLOATS:
      return std::vector<float>(attribute.floats().begin(), attribute.floats().end());
    case onnx::AttributeProto::INTS:
      return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
    case onnx::AttributeProto::STRINGS:
      return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
    default:
      return BadFile(absl::StrCat("has type ", onnx::AttributeProto_AttributeType_Name(attribute.type()),
                                  ", but FLOAT, INT, STRING, FLOATS, INTS or STRINGS is needed"));
  }
}

}  // namespace

bool IsOnnxOp(const onnx::NodeProto& node, std::string_view op_type) {
  return IsDefaultDomain(node.domain()) && node.op_type() == op_type;
}

bool IsOnnxOp(const onnx::NodeProto& node, std::span<const std::string_view> op_types) {
  return IsDefaultDomain(node.domain()) && std::ranges::find(op_types, node.op_type()) != op_types.end();
}

bool IsRecurrent(const onnx::NodeProto& node) { return IsOnnxOp(node, kRecurrent); }

bool IsForeignRecurrent(const onnx::NodeProto& node) {
  return !IsDefaultDomain(node.domain()) && std::ranges::any_of(kRecurrent, [&](std::string_view op_type) {
    return std::string_view(node.op_type()).ends_with(op_type);
  });
}

std::span<const std::string_view> RecurrentInputs(std::string_view op_type) {
  return std::span(kInputs).first(op_type == "LSTM" ? 8 : 6);
}

std::string InputLabel(size_t index, std::string_view name) {
  return absl::StrCat(View(kInputs[index]), " (input ", index, ", ", Quoted(name), ")");
}

std::string NodeLabel(const onnx::NodeProto& node, int index) {
  return absl::StrCat("node ", index, " (op_type ", Quoted(node.op_type()),
                      node.domain().empty() ? "" : absl::StrCat(", domain ", Quoted(node.domain())),
                      node.name().empty() ? "" : absl::StrCat(", name ", Quoted(node.name())), ")");
}

std::optional<bool> BooleanOf(const onnx::TensorProto& tensor) {
  if (tensor.data_type() != onnx::TensorProto::BOOL || tensor.dims_size() > 1) return std::nullopt;
  if (tensor.raw_data().size() == 1) return tensor.raw_data()[0] != 0;
  if (tensor.int32_data_size() == 1) return tensor.int32_data(0) != 0;
  return std::nullopt;
}

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name) {
  const auto found = std::ranges::find(node.attribute(), name, &onnx::AttributeProto::name);
  return found == node.attribute().end() ? nullptr : &*found;
}

absl::StatusOr<OperatorDef> OperatorOf(const onnx::NodeProto& node, int64_t opset) {
  OperatorDef op;
  op.op_type = node.op_type();
  op.opset = opset;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    absl::StatusOr<AttributeValue> value = Value(attribute);
    if (!value.ok())
      return BadFile(absl::StrCat("attribute ", Quoted(attribute.name()), " ", value.status().message()));
    if (!op.attributes.emplace(attribute.name(), *std::move(value)).second) {
      return BadFile(absl::StrCat("attribute ", Quoted(attribute.name()), " is given twice"));
    }
  }
  return op;
}

}  // namespace rnnserve
