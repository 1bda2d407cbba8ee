// SPDX-License-Identifier: Apache-2.0
// Text for Abseil, whose string_view is not std::string_view everywhere.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace rnnserve {

inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace rnnserve
