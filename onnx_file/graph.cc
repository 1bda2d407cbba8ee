// SPDX-License-Identifier: Apache-2.0
// Which nodes there are and whether they make one chain. Where their inputs come from: graph_inputs.cc.
#include "onnx_file/graph.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/stack.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

// Operators that only name values or their axes anew; applied to outputs they change no number.
constexpr std::array<std::string_view, 5> kArrange = {"Identity", "Squeeze", "Unsqueeze", "Transpose", "Reshape"};
// Operators that make the shapes of zero initial states, and what may lie between an input and a node.
constexpr std::array<std::string_view, 8> kComputeShapes = {"Shape", "Gather",          "Slice",  "Concat",
                                                            "Cast",  "ConstantOfShape", "Expand", "Split"};

constexpr char kWhatFits[] =
    "; a model is a chain of LSTM, GRU and RNN nodes, beside which a file may only hold constants, zero initial states "
    "and nodes that arrange X, states and outputs, so export those layers alone";

int64_t IntOr(const onnx::NodeProto& node, std::string_view name, int64_t otherwise) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? otherwise : attribute->i();
}

}  // namespace

absl::StatusOr<OnnxGraph> OnnxGraph::Create(const onnx::GraphProto& graph, Constants& constants) {
  absl::StatusOr<std::unique_ptr<const Scope>> scope = Scope::Create(graph);
  if (!scope.ok()) return scope.status();
  OnnxGraph made(constants);
  made.scope_ = *std::move(scope);
  if (graph.sparse_initializer_size() > 0) {
    return BadFile("the graph has sparse initializers, which are not supported; store the weights dense");
  }
  for (int k = 0; k < graph.node_size(); ++k) {
    if (absl::Status added = made.AddNode(graph.node(k), k); !added.ok()) return added;
  }
  if (made.layers_.empty()) {
    return BadFile(absl::StrCat("the graph has no LSTM, GRU or RNN node (it has ", graph.node_size(),
                                " nodes); a model is a recurrent operator or a chain of them"));
  }
  if (absl::Status outputs = made.CheckOutputs(); !outputs.ok()) return outputs;
  return made;
}

absl::Status OnnxGraph::AddNode(const onnx::NodeProto& node, int index) {
  if (IsOnnxOp(node, "Constant")) return absl::OkStatus();
  const std::string label = NodeLabel(node, index);
  return IsRecurrent(node) ? AddLayer(node, label) : AddBystander(node, label);
}

absl::Status OnnxGraph::AddLayer(const onnx::NodeProto& node, const std::string& label) {
  if (layers_.size() == kMaxLayers) {
    return BadFile(absl::StrCat(label, " is layer ", kMaxLayers + 1, "; a model has at most ", kMaxLayers));
  }
  const onnx::AttributeProto* direction = FindAttribute(node, "direction");
  const Layer layer = {.node = &node,
                       .label = label,
                       .directions = direction != nullptr && direction->s() == "bidirectional" ? 2 : 1,
                       .layout = IntOr(node, "layout", 0)};
  if (!layers_.empty()) {
    if (absl::Status linked = CheckLink(layer); !linked.ok()) return linked;
  }
  for (int k = 1; k < node.input_size(); ++k) {
    if (!given_.contains(node.input(k))) continue;
    return BadFile(absl::StrCat(InputLabel(static_cast<size_t>(k), node.input(k)), " of ", label,
                                " comes out of another layer; the layers of a stack start from states of their own, so "
                                "export each into a model of its own"));
  }
  const size_t number = layers_.size();
  layers_.push_back(layer);
  constexpr std::array kinds = {Given::Kind::kY, Given::Kind::kFinalH, Given::Kind::kFinalC};
  for (int k = 0; k < std::min<int>(node.output_size(), kinds.size()); ++k) {
    Given given = {.kind = kinds[static_cast<size_t>(k)], .first_layer = number, .last_layer = number};
    if (k == 0) given.axes = Axes::OfY(layer.directions, IntOr(node, "hidden_size", 0), layer.layout);
    if (!node.output(k).empty()) given_.emplace(node.output(k), std::move(given));
  }
  return absl::OkStatus();
}

// X is what the layer before gives, in the operator's axes.
absl::Status OnnxGraph::CheckLink(const Layer& layer) const {
  const std::string x = layer.node->input_size() > 0 ? layer.node->input(0) : "";
  const auto refuse = [&](const std::string& reason) {
    return BadFile(absl::StrCat("the graph has another recurrent node: ", layer.label, ", whose X (input 0, ",
                                Quoted(x), ") ", reason,
                                "; the layers of a model are one chain, so export others into models of their own"));
  };
  const auto found = given_.find(x);
  if (found == given_.end()) return refuse(absl::StrCat("is not what ", layers_.back().label, " gives"));
  const Given& given = found->second;
  if (given.kind != Given::Kind::kY) return refuse("is a final state");
  if (given.last_layer + 1 != layers_.size()) {
    return refuse(
        absl::StrCat("comes from ", layers_[given.last_layer].label, ", but ", layers_.back().label, " lies between"));
  }
  if (!given.axes) return refuse(absl::StrCat("cannot be followed: ", given.obstacle));
  if (given.axes->IsXOf(layer.layout)) return absl::OkStatus();
  return refuse(absl::StrCat("comes with the axes ", given.axes->Text(), ", but ",
                             layer.layout == 1 ? "[N, T, D*H]" : "[T, N, D*H]", " is needed"));
}

absl::Status OnnxGraph::AddBystander(const onnx::NodeProto& node, const std::string& label) {
  // Sizes are no numbers: PyTorch makes zero states of a layer from the sizes of its X.
  if (IsOnnxOp(node, "Shape")) return absl::OkStatus();
  const bool after = std::ranges::any_of(node.input(), [&](const std::string& name) { return given_.contains(name); });
  if (!after) {
    if (IsOnnxOp(node, kArrange) || IsOnnxOp(node, kComputeShapes)) return absl::OkStatus();
    return BadFile(absl::StrCat(label, " computes numbers", kWhatFits));
  }
  std::optional<Given> made = IsOnnxOp(node, "Concat") ? Joined(node) : Arranged(node, label);
  if (!made) return BadFile(absl::StrCat(label, " computes from the recurrent node's outputs", kWhatFits));
  if (node.output_size() > 0 && !node.output(0).empty()) given_.emplace(node.output(0), *std::move(made));
  return absl::OkStatus();
}

std::optional<OnnxGraph::Given> OnnxGraph::Arranged(const onnx::NodeProto& node, const std::string& label) const {
  if (!IsOnnxOp(node, kArrange)) return std::nullopt;
  const auto found = given_.find(node.input(0));
  if (found == given_.end()) return std::nullopt;
  Given made = found->second;
  if (!made.axes) return made;
  const absl::Status applied =
      made.axes->Apply(node, [&](std::string_view name, size_t index) { return Ints(node, name, index); });
  if (!applied.ok()) {
    made.axes.reset();
    made.obstacle = absl::StrCat(label, " ", applied.message());
  }
  return made;
}

// Final states of one kind, of layers in their order.
std::optional<OnnxGraph::Given> OnnxGraph::Joined(const onnx::NodeProto& node) const {
  std::optional<Given> sum;
  for (const std::string& input : node.input()) {
    const auto found = given_.find(input);
    if (found == given_.end() || found->second.kind == Given::Kind::kY) return std::nullopt;
    const Given& next = found->second;
    if (!sum) {
      sum = next;
      continue;
    }
    if (next.kind != sum->kind || next.first_layer <= sum->last_layer) return std::nullopt;
    sum->last_layer = next.last_layer;
  }
  const int64_t axis = IntOr(node, "axis", 0);
  return axis == 0 || axis == -3 ? sum : std::nullopt;  // of three
}

absl::Status OnnxGraph::CheckOutputs() const {
  for (const onnx::ValueInfoProto& output : scope_->graph().output()) {
    const auto found = given_.find(output.name());
    if (found == given_.end() || found->second.kind != Given::Kind::kY) continue;
    if (found->second.last_layer + 1 == layers_.size()) continue;
    return BadFile(absl::StrCat("graph output ", Quoted(output.name()), " is the Y of ",
                                layers_[found->second.last_layer].label,
                                ", but a model gives only that of its last layer, ", layers_.back().label,
                                "; drop the output, or export the layers into models of their own"));
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
