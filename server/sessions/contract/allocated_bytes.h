// SPDX-License-Identifier: Apache-2.0
// What the allocator takes for a block, so that what a session is charged with is what it costs.
#pragma once

#include <bit>
#include <cstdint>

namespace rnnserve {

// Sizes that mimalloc allocates, which the server is linked with: classes of 16 bytes up to 64 bytes, four to each
// doubling up to 128 KiB (1,024, 1,280, 1,536, 1,792, 2,048, ...), and whole pages beyond. Not below `bytes`, and above
// it by at most a fourth; other allocators take less.
constexpr int64_t AllocatedBytes(int64_t bytes) {
  constexpr int64_t kGrain = 16, kFirstDoubling = 64, kLargestClass = 128 << 10, kPage = 4096;
  int64_t step = kPage;
  if (bytes <= kFirstDoubling) {
    step = kGrain;
  } else if (bytes <= kLargestClass) {
    step = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)) / 8);
  }
  const int64_t over = bytes % step;
  if (over == 0) return bytes;
  return bytes > INT64_MAX - step ? INT64_MAX : bytes - over + step;
}

}  // namespace rnnserve
