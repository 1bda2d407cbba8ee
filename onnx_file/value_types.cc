// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/value_types.h"

#include <string_view>

#include "onnx_file/node.h"

namespace rnnserve {
namespace {

constexpr std::string_view kBools[] = {"And",  "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN",
                                       "Less", "Not",   "Or",      "LessOrEqual",    "Xor"};
constexpr std::string_view kIntegers[] = {"ArgMax", "ArgMin", "NonZero", "Shape", "Size"};
constexpr std::string_view kUnknown[] = {"Loop", "QuantizeLinear", "Scan"};

int32_t TypeOf(const onnx::NodeProto& node, int output, const std::unordered_map<std::string, int32_t>& types) {
  if (IsOnnxOp(node, kBools)) return onnx::TensorProto::BOOL;
  if (IsOnnxOp(node, kIntegers)) return onnx::TensorProto::INT64;
  const auto tensor_of = [&](const char* name, int32_t otherwise) {
    const onnx::AttributeProto* attribute = FindAttribute(node, name);
    return attribute == nullptr ? otherwise : attribute->t().data_type();
  };
  const auto of_input = [&](int index) {
    const auto found = index < node.input_size() ? types.find(node.input(index)) : types.end();
    return found == types.end() ? 0 : found->second;
  };
  if (IsOnnxOp(node, "Cast")) {
    const onnx::AttributeProto* to = FindAttribute(node, "to");
    return to == nullptr ? 0 : static_cast<int32_t>(to->i());
  }
  if (IsOnnxOp(node, "DequantizeLinear")) return of_input(1);
  if (IsOnnxOp(node, "Constant")) return tensor_of("value", 0);
  if (IsOnnxOp(node, "ConstantOfShape")) return tensor_of("value", onnx::TensorProto::FLOAT);
  if (IsOnnxOp(node, "Where") || IsOnnxOp(node, "CastLike")) return of_input(1);
  if (IsOnnxOp(node, "If")) {
    const onnx::AttributeProto* branch = FindAttribute(node, "then_branch");
    return branch != nullptr && output < branch->g().output_size()
               ? branch->g().output(output).type().tensor_type().elem_type()
               : 0;
  }
  if (IsOnnxOp(node, "TopK")) return output == 1 ? onnx::TensorProto::INT64 : of_input(0);
  return IsOnnxOp(node, kUnknown) ? 0 : of_input(0);
}

}  // namespace

std::unordered_map<std::string, int32_t> ValueTypes(const onnx::GraphProto& graph) {
  std::unordered_map<std::string, int32_t> types;
  for (const auto* infos : {&graph.input(), &graph.output(), &graph.value_info()}) {
    for (const onnx::ValueInfoProto& info : *infos) {
      if (info.type().tensor_type().elem_type() != 0) types.emplace(info.name(), info.type().tensor_type().elem_type());
    }
  }
  for (const onnx::TensorProto& tensor : graph.initializer()) types.emplace(tensor.name(), tensor.data_type());
  for (const onnx::NodeProto& node : graph.node()) {
    for (int output = 0; output < node.output_size(); ++output) {
      if (const int32_t type = TypeOf(node, output, types); type != 0) types.emplace(node.output(output), type);
    }
  }
  return types;
}

}  // namespace rnnserve
