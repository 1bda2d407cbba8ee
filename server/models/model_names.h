// SPDX-License-Identifier: Apache-2.0
// What a model and a version may be called, by callers and as folders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rnnserve {

inline constexpr std::string_view kModelNameRule = "1 to 128 of letters, digits, '.', '_', '-', not starting with '.'";

bool IsModelName(std::string_view name);

// A folder name as a version: a decimal number from 1 to 2^63 - 1 without leading zeros.
std::optional<int64_t> ParseVersion(std::string_view text);

// `text` with unprintable bytes escaped, cut after 300 bytes.
std::string Printable(std::string_view text);

}  // namespace rnnserve
