// SPDX-License-Identifier: Apache-2.0
// Copies the elements that a walk with strides meets into packed memory: what Slice and Transpose come down to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rnnserve {

// `target[i, j, ...]` = element at `source` + i * strides[0] + j * strides[1] + ... (bytes, may be negative),
// row-major, for every index of `shape`. Nothing needs alignment. A shape with a zero copies nothing.
void CopyStrided(const std::byte* source, std::span<const int64_t> shape, std::span<const int64_t> strides,
                 size_t element_bytes, std::byte* target);

}  // namespace rnnserve
