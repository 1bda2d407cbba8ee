// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/graph.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

absl::Status Bad(const std::string& text) { return absl::FailedPreconditionError(text); }

bool IsDefaultDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

bool IsRecurrent(const onnx::NodeProto& node) {
  return IsDefaultDomain(node.domain()) &&
         (node.op_type() == "LSTM" || node.op_type() == "GRU" || node.op_type() == "RNN");
}

// Operators that only name values or their axes anew; applied to the node's outputs they change no number.
constexpr std::array<std::string_view, 5> kArrange = {"Identity", "Squeeze", "Unsqueeze", "Transpose", "Reshape"};
// Operators that make the shapes of zero initial states, and what may lie between an input and the node.
constexpr std::array<std::string_view, 7> kComputeShapes = {"Shape", "Gather",          "Slice", "Concat",
                                                            "Cast",  "ConstantOfShape", "Expand"};
constexpr int kLengths = 4;

bool IsState(int index) { return index == 5 || index == 6; }  // initial_h, initial_c

bool IsOneOf(std::span<const std::string_view> op_types, const onnx::NodeProto& node) {
  return IsDefaultDomain(node.domain()) && std::ranges::find(op_types, node.op_type()) != op_types.end();
}

std::string Label(const onnx::NodeProto& node, int index) {
  return absl::StrCat("node ", index, " (op_type ", Quoted(node.op_type()),
                      node.domain().empty() ? "" : absl::StrCat(", domain ", Quoted(node.domain())),
                      node.name().empty() ? "" : absl::StrCat(", name ", Quoted(node.name())), ")");
}

}  // namespace

absl::StatusOr<OnnxGraph> OnnxGraph::Create(const onnx::GraphProto& graph) {
  OnnxGraph made;
  for (const onnx::ValueInfoProto& input : graph.input()) made.inputs_.insert(input.name());
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (absl::Status added = made.AddConstant(tensor.name(), tensor); !added.ok()) return added;
  }
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

absl::Status OnnxGraph::AddConstant(const std::string& name, const onnx::TensorProto& tensor) {
  if (constants_.emplace(name, &tensor).second) return absl::OkStatus();
  return Bad(absl::StrCat("the graph defines ", Quoted(name), " twice"));
}

absl::Status OnnxGraph::AddNode(const onnx::NodeProto& node, int index) {
  const std::string label = Label(node, index);
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
  if (IsDefaultDomain(node.domain()) && node.op_type() == "Constant" && node.output_size() == 1) {
    if (node.attribute_size() == 1 && node.attribute(0).name() == "value" && node.attribute(0).has_t()) {
      return AddConstant(node.output(0), node.attribute(0).t());
    }
    return Bad(absl::StrCat(label, " has no tensor as its attribute \"value\"; other constants are not supported"));
  }
  return AddBystander(node, label);
}

absl::Status OnnxGraph::AddBystander(const onnx::NodeProto& node, const std::string& label) {
  const bool after = std::ranges::any_of(node.input(), [&](const std::string& name) { return given_.contains(name); });
  if (!IsOneOf(kArrange, node) && (after || !IsOneOf(kComputeShapes, node))) {
    return Bad(absl::StrCat(label, " computes ", after ? "from the recurrent node's outputs" : "numbers",
                            "; a model is one LSTM, GRU or RNN node, beside which a file may only hold constants, zero "
                            "initial states and nodes that arrange outputs, so export that layer alone"));
  }
  for (const std::string& output : node.output()) {
    if (output.empty()) continue;
    if (!bystanders_.emplace(output, &node).second) {
      return Bad(absl::StrCat(label, " defines ", Quoted(output), " again"));
    }
    if (after) given_.insert(output);
  }
  return absl::OkStatus();
}

absl::StatusOr<OnnxGraph::Source> OnnxGraph::Input(int index) const {
  Source source;
  if (index >= node_->input_size() || node_->input(index).empty()) return source;
  source.name = node_->input(index);
  // A chain longer than there are nodes is a ring.
  for (size_t hops = 0; hops <= bystanders_.size(); ++hops) {
    if (const auto constant = constants_.find(source.name); constant != constants_.end()) {
      source.constant = constant->second;
      return source;
    }
    if (inputs_.contains(source.name)) return source;
    const auto found = bystanders_.find(source.name);
    if (found == bystanders_.end()) break;
    const onnx::NodeProto& by = *found->second;
    if (by.op_type() == "ConstantOfShape" && IsState(index)) {
      source.zeros = by.attribute_size() == 0;
      if (!source.zeros) source.constant = &by.attribute(0).t();
      return source;
    }
    const bool passed_on = by.op_type() == "Identity" || (by.op_type() == "Expand" && IsState(index)) ||
                           (by.op_type() == "Cast" && index == kLengths);
    if (!passed_on || by.input_size() == 0) return Computed(index, by);
    source.name = by.input(0);
  }
  return Bad(absl::StrCat("input ", index, " of the ", node_->op_type(), " node is ", Quoted(node_->input(index)),
                          ", which is neither a graph input nor an initializer"));
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
