// SPDX-License-Identifier: Apache-2.0
#include "server/models/onnx_graph.h"

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
    return absl::OkStatus();
  }
  if (IsDefaultDomain(node.domain()) && node.op_type() == "Constant" && node.output_size() == 1) {
    if (node.attribute_size() == 1 && node.attribute(0).name() == "value" && node.attribute(0).has_t()) {
      return AddConstant(node.output(0), node.attribute(0).t());
    }
    return Bad(absl::StrCat(label, " has no tensor as its attribute \"value\"; other constants are not supported"));
  }
  if (IsDefaultDomain(node.domain()) && node.op_type() == "Identity" && node.input_size() == 1 &&
      node.output_size() == 1) {
    if (identities_.emplace(node.output(0), node.input(0)).second) return absl::OkStatus();
    return Bad(absl::StrCat(label, " defines ", Quoted(node.output(0)), " again"));
  }
  return Bad(absl::StrCat(label,
                          " is neither the recurrent node nor a Constant or Identity beside it; a model is one "
                          "LSTM, GRU or RNN node, so export that layer alone"));
}

absl::StatusOr<OnnxGraph::Source> OnnxGraph::Input(int index) const {
  Source source;
  if (index >= node_->input_size() || node_->input(index).empty()) return source;
  source.name = node_->input(index);
  // A chain longer than there are Identity nodes is a ring.
  for (size_t hops = 0; hops <= identities_.size(); ++hops) {
    if (const auto constant = constants_.find(source.name); constant != constants_.end()) {
      source.constant = constant->second;
      return source;
    }
    if (inputs_.contains(source.name)) return source;
    const auto identity = identities_.find(source.name);
    if (identity == identities_.end()) break;
    source.name = identity->second;
  }
  return Bad(absl::StrCat("input ", index, " of the ", node_->op_type(), " node is ", Quoted(node_->input(index)),
                          ", which is neither a graph input nor an initializer"));
}

}  // namespace rnnserve
