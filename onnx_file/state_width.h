// SPDX-License-Identifier: Apache-2.0
// Whether an initial state that the file makes fits its layer. Private to onnx_file.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>

#include "absl/status/status.h"
#include "onnx_file/constants.h"
#include "onnx_file/scope.h"

namespace rnnserve {

// Of input `index` (initial_h, initial_c) of a recurrent node: a state that the file fixes, or makes of zeros, has the
// H of R's last axis, or 1 (repeated); else the node is not the layer that was exported. OK too where the file does not
// tell.
absl::Status CheckStateWidth(Constants& constants, const Scope& scope, const onnx::NodeProto& node, size_t index);

}  // namespace rnnserve
