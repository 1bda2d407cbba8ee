// SPDX-License-Identifier: Apache-2.0
// What is wrong with a file, or not supported in it. Private to onnx_file.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace rnnserve {

inline absl::Status BadFile(const std::string& text) { return absl::FailedPreconditionError(text); }

}  // namespace rnnserve
