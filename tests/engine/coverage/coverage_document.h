// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace rnnserve {

// docs/coverage.md, whole.
std::string CoverageDocument();

}  // namespace rnnserve
