// SPDX-License-Identifier: Apache-2.0
// Which function of maps an ONNX operator of one, two or many numbers computes. Private to onnx_file.
#pragma once

#include <string_view>

#include "engine/map/map.h"

namespace rnnserve {

// `op_type` is one of the table's.
MapFunction FunctionOf(std::string_view op_type);

}  // namespace rnnserve
