// SPDX-License-Identifier: Apache-2.0
// The element types of a graph's values, where the file does not write them down: of most operators that of the first
// input. A guess: a runtime that loads a part with a wrong one refuses it. Private to onnx_file.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <unordered_map>

namespace rnnserve {

// By name; `graph` has its nodes in the order they run in. Values that nothing tells about are missing.
std::unordered_map<std::string, int32_t> ValueTypes(const onnx::GraphProto& graph);

}  // namespace rnnserve
