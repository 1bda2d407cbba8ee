// SPDX-License-Identifier: Apache-2.0
// Text that goes into an error: callers send anything, and trailers are small.
#pragma once

#include <string>
#include <string_view>

namespace rnnserve {

// `text` as valid UTF-8 of at most `max_bytes` bytes: invalid bytes become '?', what is too long ends in "...".
std::string WireText(std::string_view text, size_t max_bytes);

}  // namespace rnnserve
