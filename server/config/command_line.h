// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line, told as everything else is; Abseil's own words name neither the nearest flag nor
// what a value looks like.
#pragma once

#include "absl/status/status.h"

namespace rnnserve {

// INVALID_ARGUMENT with a line for each word that names no flag and for each value that its flag does not take. Flags
// have their values afterwards, even if others are wrong: --log_format is one of them.
absl::Status CheckCommandLine(int argc, char** argv);

}  // namespace rnnserve
