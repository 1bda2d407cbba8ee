// SPDX-License-Identifier: Apache-2.0
#include "base/recycled.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

std::atomic<int64_t> live_bytes = 0;  // of operator new
constexpr size_t kHead = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t bytes) {
  auto* const head = static_cast<char*>(std::malloc(bytes + kHead));
  if (head == nullptr) throw std::bad_alloc();
  std::memcpy(head, &bytes, sizeof bytes);
  live_bytes += static_cast<int64_t>(bytes);
  return head + kHead;
}
void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  char* const head = static_cast<char*>(block) - kHead;
  size_t bytes = 0;
  std::memcpy(&bytes, head, sizeof bytes);
  live_bytes -= static_cast<int64_t>(bytes);
  std::free(head);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

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

// What is left of 4 MiB of blocks of one size, once the thread that gave them has ended.
int64_t KeptOf(size_t bytes) {
  const int64_t before = live_bytes;
  std::thread([bytes] { GiveMany(TakeMany((size_t{4} << 20) / bytes, bytes), bytes); }).join();
  return live_bytes - before;
}

// The last test: it leaves all threads as much as they may keep.
TEST(Recycled, KeepsAMebibyteOfAClassSixteenOfAllAndSomeOfEach) {
  static bool has_run = false;
  if (std::exchange(has_run, true)) GTEST_SKIP() << "all is kept already";
  constexpr int64_t kKibi = 1024, kBatch = 16;
  std::thread([] { GiveMany(TakeMany(64, 64), 64); }).join();  // the first one makes what all threads share
  int64_t all = 0;
  size_t bytes = kMostRecycledBytes;
  for (; all < 15 * kKibi * kKibi && bytes > 2048; bytes -= 64) {
    const int64_t kept = KeptOf(bytes), batch = kBatch * static_cast<int64_t>(bytes);
    EXPECT_LE(kept, kKibi * kKibi) << bytes;
    EXPECT_GT(kept, kKibi * kKibi - batch) << bytes;
    all += kept;
  }
  ASSERT_GE(all, 15 * kKibi * kKibi);
  for (int k = 0; k < 4; ++k, bytes -= 64) all += KeptOf(bytes);
  EXPECT_LE(all, 16 * kKibi * kKibi + 4 * 128 * kKibi);
  for (; bytes > 1024; bytes -= 64) {
    const int64_t kept = KeptOf(bytes), batch = kBatch * static_cast<int64_t>(bytes);
    EXPECT_LE(kept, 128 * kKibi) << bytes;
    EXPECT_GT(kept, 128 * kKibi - batch) << bytes;
  }
}

}  // namespace
}  // namespace rnnserve
