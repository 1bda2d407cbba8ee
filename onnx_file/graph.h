// SPDX-License-Identifier: Apache-2.0
// The one recurrent node of an ONNX graph, and where its inputs come from.
//
// Exporters put nodes around it that compute no numbers: PyTorch makes zero initial states by Shape, Gather, Concat and
// Expand or ConstantOfShape, casts the lengths, and takes the axis D out of Y by Squeeze, or Transpose and Reshape.
// These are looked through or left out: the model is the operator, with the operator's own inputs and outputs.
#pragma once

#include <onnx/onnx_pb.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "absl/status/statusor.h"
#include "onnx_file/constants.h"
#include "onnx_file/scope.h"
#include "onnx_file/tensor.h"

namespace rnnserve {

// Points into the graph it was made from.
class OnnxGraph {
 public:
  // Refuses graphs with no recurrent node, with several, and with any node besides that computes numbers.
  static absl::StatusOr<OnnxGraph> Create(const onnx::GraphProto& graph);

  const onnx::NodeProto& node() const { return *node_; }

  struct Source {
    std::string name;                 // after looking through nodes that pass it on
    std::optional<OnnxTensor> value;  // the file fixes it (of an initial state: every element of it)
    bool zeros = false;               // an initial state that the graph makes of zeros
  };                                  // neither: it is a graph input
  // Where the node's input `index` comes from; an empty name if it is absent. Weights always have a value.
  absl::StatusOr<Source> Input(int index, Constants& constants) const;

 private:
  OnnxGraph() = default;
  absl::Status AddNode(const onnx::NodeProto& node, int index);
  absl::Status AddBystander(const onnx::NodeProto& node, const std::string& label);
  absl::Status Computed(int index, const onnx::NodeProto& by) const;

  const onnx::NodeProto* node_ = nullptr;
  std::unique_ptr<const Scope> scope_;
  std::unordered_set<std::string> given_;  // the node's outputs, arranged or not
};

}  // namespace rnnserve
