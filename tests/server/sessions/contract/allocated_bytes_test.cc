// SPDX-License-Identifier: Apache-2.0
// The charge for a block against what mimalloc, which the server is linked with, gives for it.
#include "server/sessions/contract/allocated_bytes.h"

#include <gtest/gtest.h>
#include <mimalloc.h>

#include <cstdint>
#include <limits>

namespace rnnserve {
namespace {

int64_t Usable(int64_t bytes) {
  void* block = mi_malloc(static_cast<size_t>(bytes));
  const auto usable = static_cast<int64_t>(mi_usable_size(block));
  mi_free(block);
  return usable;
}

TEST(AllocatedBytesTest, IsWhatTheAllocatorTakesForABlock) {
  for (int64_t bytes = 9; bytes <= 128 << 10; bytes += bytes < 4096 ? 1 : 61) {
    ASSERT_EQ(AllocatedBytes(bytes), Usable(bytes)) << bytes << " bytes";
  }
  for (int64_t bytes = 64; bytes < 128 << 10; bytes *= 2) {
    ASSERT_EQ(AllocatedBytes(bytes), bytes);
    ASSERT_EQ(AllocatedBytes(bytes + 1), Usable(bytes + 1)) << bytes << " bytes and one";
  }
}

// Pages of a block that are never written take no memory, whatever class it is in.
TEST(AllocatedBytesTest, BeyondTheClassesItIsWholePages) {
  EXPECT_EQ(AllocatedBytes((128 << 10) + 1), (128 << 10) + 4096);
  EXPECT_EQ(AllocatedBytes(1 << 20), 1 << 20);
  EXPECT_GE(Usable((1 << 20) + 1), AllocatedBytes((1 << 20) + 1));
}

TEST(AllocatedBytesTest, NeitherNothingNorTheLargestNumberIsSpecial) {
  EXPECT_EQ(AllocatedBytes(0), 0);
  EXPECT_EQ(AllocatedBytes(std::numeric_limits<int64_t>::max()), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace rnnserve
