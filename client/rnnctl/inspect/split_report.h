// SPDX-License-Identifier: Apache-2.0
// What `rnnctl split` wrote, and how its parts are called one after the other.
#pragma once

#include <string>

#include "onnx_file/split.h"

namespace rnnserve::rnnctl::inspect {

// "before.onnx".
std::string FileOf(const SplitPart& part);
std::string ShowSplit(const std::string& folder, const OnnxSplit& split);
std::string SplitJson(const std::string& folder, const OnnxSplit& split);

}  // namespace rnnserve::rnnctl::inspect
