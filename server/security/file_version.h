// SPDX-License-Identifier: Apache-2.0
// Whether a file that an operator may replace at any time is still the one that was read.
#pragma once

#include <string>

namespace rnnserve {

// Another text whenever the file at `path` has been written, replaced or made readable; empty: there is none.
std::string FileVersion(const std::string& path);

}  // namespace rnnserve
