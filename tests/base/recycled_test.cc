// SPDX-License-Identifier: Apache-2.0
#include "base/recycled.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace rnnserve {
namespace {

std::vector<void*> TakeMany(size_t count, size_t bytes) {
  std::vector<void*> blocks;
  for (size_t k = 0; k < count; ++k) blocks.push_back(std::memset(TakeRecycled(bytes), 7, bytes));
  return blocks;
}

void GiveMany(const std::vector<void*>& blocks, size_t bytes) {
  for (void* block : blocks) GiveRecycled(block, bytes);
}

// A block of `least` to `most` bytes serves all of these, and no others.
void ExpectClass(size_t least, size_t most) {
  void* const block = TakeRecycled(least);
  GiveRecycled(block, least);
  for (const size_t bytes : {least - 1, most + 1}) {
    void* const other = TakeRecycled(bytes);
    EXPECT_NE(other, block) << bytes;
    GiveRecycled(other, bytes);
  }
  for (const size_t bytes : {most, least}) {
    void* const same = TakeRecycled(bytes);
    EXPECT_EQ(same, block) << bytes;
    GiveRecycled(same, bytes);
  }
}

TEST(Recycled, WhatWasGivenServesTheNextOfItsClass) {
  ExpectClass(193, 256);
  ExpectClass(129, 192);
  ExpectClass(113, 128);
  ExpectClass(17, 32);
}

TEST(Recycled, BlocksOfAllSizesAreApart) {
  std::set<uintptr_t> bytes_taken;
  std::vector<std::pair<void*, size_t>> blocks;
  for (size_t bytes = 1; bytes <= 2 * kMostRecycledBytes; bytes += 61) {
    void* const block = std::memset(TakeRecycled(bytes), 7, bytes);
    for (size_t k = 0; k < bytes; ++k) EXPECT_TRUE(bytes_taken.insert(reinterpret_cast<uintptr_t>(block) + k).second);
    blocks.emplace_back(block, bytes);
  }
  for (const auto& [block, bytes] : blocks) GiveRecycled(block, bytes);
}

// A poller takes, a worker gives: the poller gets them back.
TEST(Recycled, WhatAnotherThreadGivesComesBack) {
  constexpr size_t kBlocks = 64, kBytes = 1000;
  const std::vector<void*> taken = TakeMany(kBlocks, kBytes);
  std::thread([&] { GiveMany(taken, kBytes); }).join();
  const std::vector<void*> again = TakeMany(kBlocks / 2, kBytes);
  const std::set<void*> before(taken.begin(), taken.end());
  for (void* block : again) EXPECT_TRUE(before.contains(block));
  GiveMany(again, kBytes);
}

}  // namespace
}  // namespace rnnserve
