// SPDX-License-Identifier: Apache-2.0
// Recurrent nodes that feed one another, in the order in which they do. Private to onnx_file.
#pragma once

#include <onnx/onnx_pb.h>

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor.h"
#include "onnx_file/folder.h"
#include "onnx_file/inspect.h"

namespace rnnserve {

// A node, and what makes its X of the Y of the node before. Values between the nodes have names of their own, which no
// operator's tensor has.
struct ChainLink {
  const InspectedNode* node = nullptr;
  std::vector<onnx::NodeProto> before;    // in the order of their run
  std::vector<onnx::TensorProto> stored;  // initializers that they take, all data inside
  std::string x, y;                       // what X and Y are called: "X" of the first node, "Y" of the last
  Shape x_shape = {};                     // of the first node's X, where the file fixes every size; else empty
};

// LSTM "encoder", for errors.
std::string ChainLabel(const InspectedNode& node);

// At least two nodes, all of `inspection`. Refused, with the node: nodes in different graphs, nodes that do not make
// one chain, other recurrent nodes between them, and an X that the node before alone does not decide.
absl::StatusOr<std::vector<ChainLink>> ChainOf(const OnnxInspection& inspection, const Folder& folder,
                                               std::span<const InspectedNode* const> nodes);

}  // namespace rnnserve
