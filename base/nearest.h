// SPDX-License-Identifier: Apache-2.0
// The word that was meant: for flags, keys and attributes that do not exist.
#pragma once

#include <span>
#include <string_view>

namespace rnnserve {

// The candidate nearest to `word` if it is near enough to be meant; empty otherwise, and for words of more than 64
// bytes.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace rnnserve
