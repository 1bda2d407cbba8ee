// SPDX-License-Identifier: Apache-2.0
// The mistakes of a command line, as log lines; Abseil's own errors name neither the nearest flag nor the form of a
// value.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rnnserve {

// INVALID_ARGUMENT with a line for each word that names no flag and for each value that its flag does not take. Flags
// have their values afterwards, even if others are wrong: --log_format is one of them.
absl::Status CheckCommandLine(int argc, char** argv);

// What replaced a flag of an earlier version; "" where `name` never was a flag.
std::string InsteadOfRetired(absl::string_view name);

// The flag whose name is most like this one; "" where none is.
std::string NearestFlag(absl::string_view name);

}  // namespace rnnserve
