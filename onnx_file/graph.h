// SPDX-License-Identifier: Apache-2.0
// The one recurrent node of an ONNX graph, and where its inputs come from.
//
// Exporters put nodes around it that compute no numbers: PyTorch makes zero initial states by Shape, Gather, Concat and
// Expand or ConstantOfShape, casts the lengths, and takes the axis D out of Y by Squeeze, or Transpose and Reshape.
// These are looked through or left out: the model is the operator, with the operator's own inputs and outputs.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "absl/status/statusor.h"

namespace rnnserve {

// Points into the graph it was made from.
class OnnxGraph {
 public:
  // Refuses graphs with no recurrent node, with several, and with any node besides that computes numbers.
  static absl::StatusOr<OnnxGraph> Create(const onnx::GraphProto& graph);

  const onnx::NodeProto& node() const { return *node_; }

  struct Source {
    std::string name;                             // after looking through nodes that pass it on
    const onnx::TensorProto* constant = nullptr;  // the file fixes it (of an initial state: every element of it)
    bool zeros = false;                           // an initial state that the graph makes of zeros
  };                                              // neither: it is a graph input
  // Where the node's input `index` comes from; an empty name if it is absent.
  absl::StatusOr<Source> Input(int index) const;

 private:
  OnnxGraph() = default;
  absl::Status AddConstant(const std::string& name, const onnx::TensorProto& tensor);
  absl::Status AddNode(const onnx::NodeProto& node, int index);
  absl::Status AddBystander(const onnx::NodeProto& node, const std::string& label);
  absl::Status Computed(int index, const onnx::NodeProto& by) const;

  const onnx::NodeProto* node_ = nullptr;
  std::unordered_map<std::string, const onnx::TensorProto*> constants_;
  std::unordered_map<std::string, const onnx::NodeProto*> bystanders_;  // by what they give
  std::unordered_set<std::string> given_;                               // the node's outputs, arranged or not
  std::unordered_set<std::string> inputs_;
};

}  // namespace rnnserve
