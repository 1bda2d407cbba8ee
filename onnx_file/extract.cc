// SPDX-License-Identifier: Apache-2.0
// ExtractOnnx: one node as a file of its own.
#include <onnx/onnx_pb.h>

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/op/stack.h"
#include "onnx_file/inspect.h"
#include "onnx_file/node.h"
#include "onnx_file/writing.h"

namespace rnnserve {
namespace {

void SetValue(const AttributeValue& value, onnx::AttributeProto& attribute) {
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, float>) {
          attribute.set_type(onnx::AttributeProto::FLOAT);
          attribute.set_f(v);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          attribute.set_type(onnx::AttributeProto::INT);
          attribute.set_i(v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          attribute.set_type(onnx::AttributeProto::STRING);
          attribute.set_s(v);
        } else if constexpr (std::is_same_v<T, std::vector<float>>) {
          attribute.set_type(onnx::AttributeProto::FLOATS);
          attribute.mutable_floats()->Add(v.begin(), v.end());
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          attribute.set_type(onnx::AttributeProto::INTS);
          attribute.mutable_ints()->Add(v.begin(), v.end());
        } else {
          attribute.set_type(onnx::AttributeProto::STRINGS);
          for (const std::string& text : v) attribute.add_strings(text);
        }
      },
      value);
}

const NamedTensor* FindWeight(const InspectedNode& node, std::string_view name) {
  for (const NamedTensor& weight : node.weights) {
    if (weight.name == name) return &weight;
  }
  return nullptr;
}

bool IsWanted(const InspectedNode& node, std::string_view name) {
  for (const InspectedInput& input : node.inputs) {
    if (input.name == name) return !input.is_zeros;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> ExtractOnnx(const OnnxInspection& inspection, const InspectedNode& node) {
  if (!node.status.ok()) return node.status;
  int64_t bytes = 0;
  for (const NamedTensor& weight : node.weights) bytes += static_cast<int64_t>(weight.tensor.data.size());
  if (bytes > kMaxFileBytes) {
    return absl::FailedPreconditionError(absl::StrCat("has weights of ", bytes, " bytes; one ONNX file holds at most ",
                                                      kMaxFileBytes, " without external data"));
  }
  onnx::ModelProto model;
  model.set_ir_version(std::max(inspection.ir_version, kOldestIrVersion));
  model.set_producer_name("rnnctl");
  model.add_opset_import()->set_version(inspection.opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name(node.name.empty() ? node.op.op_type : node.name);
  onnx::NodeProto& made = *graph.add_node();
  made.set_op_type(node.op.op_type);
  made.set_name(node.name);

  std::vector<std::string> inputs;
  for (const std::string_view name : RecurrentInputs(node.op.op_type)) {
    const NamedTensor* weight = FindWeight(node, name);
    if (weight != nullptr) Store(*weight, *graph.add_initializer());
    inputs.emplace_back(weight != nullptr || IsWanted(node, name) ? name : "");
  }
  while (inputs.back().empty()) inputs.pop_back();
  for (const std::string& name : inputs) made.add_input(name);
  for (const TensorSignature& signature : DataInputs(*node.spec)) {
    if (IsWanted(node, signature.name)) Describe(signature, *graph.add_input());
  }
  for (const TensorSignature& signature : Outputs(*node.spec)) {
    made.add_output(signature.name);
    Describe(signature, *graph.add_output());
  }

  std::map<std::string, AttributeValue> attributes = node.op.attributes;
  attributes.emplace("hidden_size", node.spec->hidden_size);  // which some runtimes require
  for (const auto& [name, value] : attributes) {
    onnx::AttributeProto& attribute = *made.add_attribute();
    attribute.set_name(name);
    SetValue(value, attribute);
  }
  return model.SerializeAsString();
}

}  // namespace rnnserve
