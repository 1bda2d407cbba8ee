// SPDX-License-Identifier: Apache-2.0
// Calls of a file's own functions, and If nodes whose condition the file fixes, as the nodes that they stand for: what
// reads files sees plain graphs.
#pragma once

#include <onnx/onnx_pb.h>

#include "absl/status/status.h"

namespace rnnserve {

// Functions of another opset than the file's, and such that have defaults of attributes, stay as they are. Refuses
// functions that call themselves, or that come to far more than the file holds.
absl::Status Inline(onnx::ModelProto& model);

}  // namespace rnnserve
