// SPDX-License-Identifier: Apache-2.0
// Nodes whose result is known when the file is loaded, since their inputs are: what only moves elements, arithmetic,
// functions of one number, reductions. These are what exporters leave between stored parameters and W, R, B, tables and
// bounds, such as weight norms.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "onnx_file/tensor.h"

namespace rnnserve {

bool IsFoldable(const onnx::NodeProto& node);

// The node's one output; it may share the inputs' storage. `inputs[k]` is the value of node.input(k), null where the
// node leaves it out. What is allocated is taken off `bytes_left`, also on failure, and the time is in proportion to it
// and to the node. Errors continue a sentence that begins with the node.
absl::StatusOr<OnnxTensor> Fold(const onnx::NodeProto& node, std::span<const OnnxTensor* const> inputs,
                                int64_t& bytes_left);

}  // namespace rnnserve
