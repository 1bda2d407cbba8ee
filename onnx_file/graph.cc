// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/graph.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

absl::Status Bad(const std::string& text) { return absl::FailedPreconditionError(text); }

// Operators that only name values or their axes anew; applied to the node's outputs they change no number.
constexpr std::array<std::string_view, 5> kArrange = {"Identity", "Squeeze", "Unsqueeze", "Transpose", "Reshape"};
// Operators that make the shapes of zero initial states, and what may lie between an input and the node.
constexpr std::array<std::string_view, 7> kComputeShapes = {"Shape", "Gather",          "Slice", "Concat",
                                                            "Cast",  "ConstantOfShape", "Expand"};
constexpr int kLengths = 4;

}  // namespace

absl::StatusOr<OnnxGraph> OnnxGraph::Create(const onnx::GraphProto& graph) {
  absl::StatusOr<std::unique_ptr<const Scope>> scope = Scope::Create(graph);
  if (!scope.ok()) return scope.status();
  OnnxGraph made;
  made.scope_ = *std::move(scope);
  if (graph.sparse_initializer_size() > 0) {
    return Bad("the graph has sparse initializers, which are not supported; store the weights dense");
  }
  for (int k = 0; k < graph.node_size(); ++k) {
    if (absl::Status added = made.AddNode(graph.node(k), k); !added.ok()) return added;
  }
  if (made.node_ == nullptr) {
    return Bad(absl::StrCat("the graph has no LSTM, GRU or RNN node (it has ", graph.node_size(),
                            " nodes); a model is one recurrent operator"));
  }
  return made;
}

absl::Status OnnxGraph::AddNode(const onnx::NodeProto& node, int index) {
  const std::string label = NodeLabel(node, index);
  if (IsRecurrent(node)) {
    if (node_ != nullptr) {
      return Bad(absl::StrCat("the graph has a second recurrent node: ", label,
                              "; a model is one recurrent operator, so export each layer into a model of its own"));
    }
    node_ = &node;
    given_.insert(node.output().begin(), node.output().end());
    given_.erase("");  // an output left out
    return absl::OkStatus();
  }
  if (IsOnnxOp(node, "Constant")) return absl::OkStatus();
  return AddBystander(node, label);
}

absl::Status OnnxGraph::AddBystander(const onnx::NodeProto& node, const std::string& label) {
  const bool after = std::ranges::any_of(node.input(), [&](const std::string& name) { return given_.contains(name); });
  if (!IsOnnxOp(node, kArrange) && (after || !IsOnnxOp(node, kComputeShapes))) {
    return Bad(absl::StrCat(label, " computes ", after ? "from the recurrent node's outputs" : "numbers",
                            "; a model is one LSTM, GRU or RNN node, beside which a file may only hold constants, zero "
                            "initial states and nodes that arrange outputs, so export that layer alone"));
  }
  for (const std::string& output : node.output()) {
    if (after && !output.empty()) given_.insert(output);
  }
  return absl::OkStatus();
}

absl::StatusOr<OnnxGraph::Source> OnnxGraph::Input(int index, Constants& constants) const {
  Source source;
  if (index >= node_->input_size() || node_->input(index).empty()) return source;
  source.name = node_->input(index);
  const auto fixed = [&]() -> absl::StatusOr<Source> {
    absl::StatusOr<OnnxTensor> value = constants.Value(*scope_, source.name);
    if (!value.ok()) {
      return Bad(absl::StrCat(InputLabel(static_cast<size_t>(index), source.name), " ", value.status().message(),
                              absl::IsNotFound(value.status()) ? kFixWeights : ""));
    }
    source.value = *std::move(value);
    return source;
  };
  if (IsWeightInput(static_cast<size_t>(index))) return fixed();
  const bool is_state = IsStateInput(static_cast<size_t>(index));
  // A chain longer than there are nodes is a ring.
  for (int hops = 0; hops <= scope_->graph().node_size(); ++hops) {
    const Scope::Definition* definition = scope_->Find(source.name);
    if (definition == nullptr) break;
    if (definition->is_input()) return source;
    if (definition->tensor != nullptr || IsOnnxOp(*definition->node, "Constant")) return fixed();
    const onnx::NodeProto& by = *definition->node;
    if (by.op_type() == "ConstantOfShape" && is_state) {
      source.zeros = by.attribute_size() == 0;
      if (!source.zeros) {
        absl::StatusOr<OnnxTensor> value = constants.Stored(by.attribute(0).t());
        if (!value.ok()) return value.status();
        source.value = *std::move(value);
      }
      return source;
    }
    const bool passed_on = by.op_type() == "Identity" || (by.op_type() == "Expand" && is_state) ||
                           (by.op_type() == "Cast" && index == kLengths);
    if (!passed_on || by.input_size() == 0) return Computed(index, by);
    source.name = by.input(0);
  }
  return Bad(absl::StrCat(InputLabel(static_cast<size_t>(index), node_->input(index)),
                          " is neither a graph input nor an initializer"));
}

absl::Status OnnxGraph::Computed(int index, const onnx::NodeProto& by) const {
  const std::string_view mend = index == 0          ? "make it a graph input, [T, N, I] (PyTorch: batch_first=False)"
                                : index < kLengths  ? "store it as an initializer (PyTorch: do_constant_folding=True)"
                                : index == kLengths ? "make it a graph input"
                                                    : "make it a graph input, or zeros";
  return Bad(absl::StrCat("input ", index, " of the ", node_->op_type(), " node, ", Quoted(node_->input(index)),
                          ", is computed in the graph (", Quoted(by.op_type()), "); ", std::string(mend)));
}

}  // namespace rnnserve
