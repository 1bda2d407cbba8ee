// SPDX-License-Identifier: Apache-2.0
// ExtractOnnx: recurrent nodes as a file of their own.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/op/stack.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/chain.h"
#include "onnx_file/inspect.h"
#include "onnx_file/loader.h"
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

// A node as a layer of the file: all but X and Y and what a stack has once is called as the operator calls it, followed
// by `suffix`.
struct LayerNames {
  std::string x = "X", y = "Y", suffix = {};
};

// The node, its weights, and its states and lengths as inputs and outputs of the graph; X and Y too, where they have
// the operator's names.
void AddLayer(const InspectedNode& node, const LayerNames& names, onnx::GraphProto& graph) {
  const auto called = [&](std::string_view name) {
    if (name == "X") return names.x;
    if (name == "Y") return names.y;
    return absl::StrCat(std::string(name), name == "sequence_lens" ? "" : names.suffix);
  };
  onnx::NodeProto& made = *graph.add_node();
  made.set_op_type(node.op.op_type);
  made.set_name(node.name);
  std::vector<std::string> inputs;
  for (const std::string_view name : RecurrentInputs(node.op.op_type)) {
    const NamedTensor* weight = FindWeight(node, name);
    if (weight != nullptr) Store({called(name), weight->tensor}, *graph.add_initializer());
    inputs.emplace_back(weight != nullptr || IsWanted(node, name) ? called(name) : "");
  }
  while (inputs.back().empty()) inputs.pop_back();
  for (const std::string& name : inputs) made.add_input(name);
  const auto has_input = [&](const std::string& name) {
    return std::ranges::any_of(graph.input(), [&](const auto& input) { return input.name() == name; });
  };
  for (TensorSignature signature : DataInputs(*node.spec)) {
    if (!IsWanted(node, signature.name) || (signature.name == "X" && names.x != "X")) continue;
    signature.name = called(signature.name);
    if (!has_input(signature.name)) Describe(signature, *graph.add_input());
  }
  for (TensorSignature signature : Outputs(*node.spec)) {
    const bool is_inside = signature.name == "Y" && names.y != "Y";
    signature.name = called(signature.name);
    made.add_output(signature.name);
    if (!is_inside) Describe(signature, *graph.add_output());
  }
  std::map<std::string, AttributeValue> attributes = node.op.attributes;
  attributes.emplace("hidden_size", node.spec->hidden_size);  // which some runtimes require
  for (const auto& [name, value] : attributes) {
    onnx::AttributeProto& attribute = *made.add_attribute();
    attribute.set_name(name);
    SetValue(value, attribute);
  }
}

absl::Status CheckBytes(int64_t bytes) {
  if (bytes <= kMaxFileBytes) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("has weights of ", bytes, " bytes; one ONNX file holds at most ",
                                                    kMaxFileBytes, " without external data"));
}

int64_t WeightBytes(const InspectedNode& node) {
  int64_t bytes = 0;
  for (const NamedTensor& weight : node.weights) bytes += static_cast<int64_t>(weight.tensor.data.size());
  return bytes;
}

onnx::ModelProto Begin(const OnnxInspection& inspection, const std::string& name) {
  onnx::ModelProto model;
  model.set_ir_version(std::max(inspection.ir_version, kOldestIrVersion));
  model.set_producer_name("rnnctl");
  model.add_opset_import()->set_version(inspection.opset);
  model.mutable_graph()->set_name(name);
  return model;
}

// One sequence_lens is for all.
absl::Status CheckLengths(const std::vector<ChainLink>& chain) {
  const auto source = [](const ChainLink& link) {
    const auto found = std::ranges::find(link.node->inputs, "sequence_lens", &InspectedInput::name);
    return found == link.node->inputs.end() ? std::string("none") : found->source;
  };
  for (const ChainLink& link : chain) {
    if (source(link) == source(chain[0])) continue;
    return BadFile(absl::StrCat(ChainLabel(*link.node), " takes its sequence_lens from ", source(link), ", but ",
                                ChainLabel(*chain[0].node), " from ", source(chain[0]),
                                "; a stack has one for all its layers, so extract them one by one"));
  }
  return absl::OkStatus();
}

// As a server does.
absl::Status CheckLoads(const std::string& bytes) {
  const absl::StatusOr<OnnxStack> loaded = LoadOnnxBytes(bytes);
  if (!loaded.ok()) return loaded.status();
  std::vector<LayerView> layers;
  for (const OnnxOperator& layer : loaded->layers) layers.push_back({layer.op, layer.weights, layer.label});
  return ResolveStack(layers, loaded->batch_first, loaded->pipeline, loaded->file_names).status();
}

}  // namespace

absl::StatusOr<std::string> ExtractOnnx(const OnnxInspection& inspection, const InspectedNode& node) {
  if (!node.status.ok()) return node.status;
  if (absl::Status small = CheckBytes(WeightBytes(node)); !small.ok()) return small;
  onnx::ModelProto model = Begin(inspection, node.name.empty() ? node.op.op_type : node.name);
  AddLayer(node, {}, *model.mutable_graph());
  return model.SerializeAsString();
}

absl::StatusOr<std::string> ExtractOnnx(const OnnxInspection& inspection, const Folder& folder,
                                        std::span<const InspectedNode* const> nodes) {
  if (nodes.size() == 1) return ExtractOnnx(inspection, *nodes[0]);
  absl::StatusOr<std::vector<ChainLink>> chain = ChainOf(inspection, folder, nodes);
  if (!chain.ok()) return chain.status();
  if (absl::Status same = CheckLengths(*chain); !same.ok()) return same;
  int64_t bytes = 0;
  for (const ChainLink& link : *chain) {
    bytes += WeightBytes(*link.node);
    for (const auto& tensor : link.stored) bytes += static_cast<int64_t>(tensor.ByteSizeLong());
  }
  if (absl::Status small = CheckBytes(bytes); !small.ok()) return small;
  onnx::ModelProto model = Begin(inspection, "stack");
  onnx::GraphProto& graph = *model.mutable_graph();
  for (size_t k = 0; k < chain->size(); ++k) {
    ChainLink& link = (*chain)[k];
    for (onnx::TensorProto& tensor : link.stored) *graph.add_initializer() = std::move(tensor);
    for (onnx::NodeProto& between : link.before) *graph.add_node() = std::move(between);
    AddLayer(*link.node, {.x = link.x, .y = link.y, .suffix = absl::StrCat(".", k)}, graph);
  }
  const auto y = std::ranges::find(*graph.mutable_output(), "Y", &onnx::ValueInfoProto::name);
  std::rotate(graph.mutable_output()->begin(), y, y + 1);
  std::string made = model.SerializeAsString();
  absl::Status loads = CheckLoads(made);
  const Shape& shape = chain->front().x_shape;
  onnx::TensorShapeProto& x = *graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  if (!loads.ok() && static_cast<int>(shape.size()) == x.dim_size()) {  // what lies between may name the file's sizes
    for (int axis = 0; axis < x.dim_size(); ++axis) {
      x.mutable_dim(axis)->set_dim_value(shape[static_cast<size_t>(axis)]);
    }
    made = model.SerializeAsString();
    loads = CheckLoads(made);
  }
  if (loads.ok()) return made;
  return BadFile(absl::StrCat("as one stack the nodes would not load: ", std::string(loads.message())));
}

}  // namespace rnnserve
