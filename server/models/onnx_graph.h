// SPDX-License-Identifier: Apache-2.0
// The one recurrent node of an ONNX graph, and where its inputs come from.
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
  // Refuses graphs with no recurrent node, with several, and with any node but Constant and Identity besides.
  static absl::StatusOr<OnnxGraph> Create(const onnx::GraphProto& graph);

  const onnx::NodeProto& node() const { return *node_; }

  struct Source {
    std::string name;                             // after looking through Identity nodes
    const onnx::TensorProto* constant = nullptr;  // the file fixes it; else it is a graph input
  };
  // Where the node's input `index` comes from; an empty name if it is absent.
  absl::StatusOr<Source> Input(int index) const;

 private:
  OnnxGraph() = default;
  absl::Status AddConstant(const std::string& name, const onnx::TensorProto& tensor);
  absl::Status AddNode(const onnx::NodeProto& node, int index);

  const onnx::NodeProto* node_ = nullptr;
  std::unordered_map<std::string, const onnx::TensorProto*> constants_;
  std::unordered_map<std::string, std::string> identities_;  // output -> input
  std::unordered_set<std::string> inputs_;
};

}  // namespace rnnserve
