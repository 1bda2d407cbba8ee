// SPDX-License-Identifier: Apache-2.0
// What the names of an ONNX graph mean. A branch of an If also sees the names of the graphs around it.
#pragma once

#include <onnx/onnx_pb.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"

namespace rnnserve {

// Points into the graph it was made from and to the scope around it.
class Scope {
 public:
  // Exactly one of tensor (an initializer) and node (that gives it as its output `output`), or neither: a graph input.
  struct Definition {
    const Scope* scope = nullptr;
    const onnx::TensorProto* tensor = nullptr;
    const onnx::NodeProto* node = nullptr;
    int node_index = 0;
    int output = 0;

    bool is_input() const { return tensor == nullptr && node == nullptr; }
  };

  // Refuses names that are defined twice. An initializer that is also an input (IR below 4) is an initializer.
  // `place` is what errors call the graph, empty for the whole model's: then_branch of node 3 (...).
  static absl::StatusOr<std::unique_ptr<const Scope>> Create(const onnx::GraphProto& graph,
                                                             const Scope* outer = nullptr, std::string place = "");

  const onnx::GraphProto& graph() const { return *graph_; }
  const Scope* outer() const { return outer_; }
  // Null if neither this graph nor one around it defines `name`.
  const Definition* Find(const std::string& name) const;
  // node 3 (op_type "Slice") of then_branch of node 7 (op_type "If").
  std::string Label(const onnx::NodeProto& node, int index) const;

 private:
  Scope() = default;
  const onnx::GraphProto* graph_ = nullptr;
  const Scope* outer_ = nullptr;
  std::string place_;
  std::unordered_map<std::string, Definition> definitions_;
};

}  // namespace rnnserve
