// SPDX-License-Identifier: Apache-2.0
// A graph without the If nodes around one node of it. Private to onnx_file.
#pragma once

#include <onnx/onnx_pb.h>

#include "onnx_file/inspect.h"

namespace rnnserve {

// The main graph with the branches that `node` lies in where their If nodes were; `index`: of the node in it. Null: the
// main graph as it is.
onnx::GraphProto Flattened(const onnx::GraphProto& main, const InspectedNode* node, int& index);

}  // namespace rnnserve
