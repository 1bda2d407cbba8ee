// SPDX-License-Identifier: Apache-2.0
// Copies of rows: how they are cut into shares, and threads that take the shares.
#include "engine/cuda/copy_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

namespace rnnserve::cuda {
namespace {

std::vector<std::byte> Pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t k = 0; k < size; ++k) bytes[k] = static_cast<std::byte>(k * 7 + k / 251);
  return bytes;
}

RowCopy Adjacent(const std::vector<std::byte>& source, std::vector<std::byte>& target, size_t row_bytes) {
  const auto stride = static_cast<std::ptrdiff_t>(row_bytes);
  return {source.data(), stride, target.data(), stride, row_bytes, static_cast<int64_t>(source.size() / row_bytes)};
}

TEST(RowCopiesTest, NothingToCopyHasNoShares) {
  RowCopies copies;
  copies.Add({nullptr, 0, nullptr, 0, 0, 5});
  EXPECT_EQ(copies.shares(), 0u);
  EXPECT_EQ(copies.bytes(), 0u);
}

// What each share copies, counted in the target.
std::vector<size_t> ShareSizes(const RowCopies& copies, std::vector<std::byte>& target) {
  std::vector<size_t> sizes;
  for (size_t share = 0; share < copies.shares(); ++share) {
    std::fill(target.begin(), target.end(), std::byte{0});
    copies.CopyShare(share);
    sizes.push_back(static_cast<size_t>(std::count(target.begin(), target.end(), std::byte{1})));
  }
  return sizes;
}

TEST(RowCopiesTest, ALongRunOfRowsIsCutEvenly) {
  constexpr size_t kRow = 1024;
  const std::vector<std::byte> source(150 * kRow, std::byte{1});
  std::vector<std::byte> target(source.size());
  RowCopies copies;
  copies.Add(Adjacent(source, target, kRow));
  EXPECT_EQ(copies.bytes(), source.size());
  EXPECT_EQ(ShareSizes(copies, target), (std::vector<size_t>{64 * kRow, 64 * kRow, 22 * kRow}));
}

TEST(RowCopiesTest, RaggedRunsFillEachShare) {
  constexpr size_t kRow = 1000;
  const std::vector<int64_t> lengths = {1, 40, 3, 90, 2, 2, 30, 1};
  const auto rows = static_cast<size_t>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
  const std::vector<std::byte> source(rows * kRow, std::byte{1});
  std::vector<std::byte> target(source.size());
  RowCopies copies;
  size_t at = 0;
  for (const int64_t length : lengths) {
    copies.Add({source.data() + at, kRow, target.data() + at, kRow, kRow, length});
    at += static_cast<size_t>(length) * kRow;
  }
  EXPECT_EQ(ShareSizes(copies, target), (std::vector<size_t>{66 * kRow, 66 * kRow, 37 * kRow}));
}

TEST(RowCopiesTest, ARowStaysWhole) {
  constexpr size_t kRow = 3 * RowCopies::kShareBytes + 1;
  const std::vector<std::byte> source(2 * kRow, std::byte{1});
  std::vector<std::byte> target(source.size());
  RowCopies copies;
  copies.Add(Adjacent(source, target, kRow));
  EXPECT_EQ(ShareSizes(copies, target), (std::vector<size_t>{kRow, kRow}));
}

// Rows of 999 bytes, 300 of them, at any stride of either side.
TEST(RowCopiesTest, RowsKeepTheirOrderAtAnyStride) {
  constexpr std::ptrdiff_t kRow = 999, kRows = 300;
  const std::vector<std::byte> memory = Pattern(2 * kRow * kRows);
  for (const std::ptrdiff_t source_stride : {kRow, -kRow, kRow + 5, -2 * kRow, std::ptrdiff_t{0}}) {
    for (const std::ptrdiff_t target_stride : {kRow, -kRow, kRow + 3, -2 * kRow}) {
      std::vector<std::byte> target(memory.size()), expected(memory.size());
      const std::byte* source = memory.data() + (source_stride < 0 ? -source_stride * (kRows - 1) : 0);
      const std::ptrdiff_t to = target_stride < 0 ? -target_stride * (kRows - 1) : 0;
      for (std::ptrdiff_t row = 0; row < kRows; ++row) {
        std::copy_n(source + row * source_stride, kRow, expected.data() + to + row * target_stride);
      }
      RowCopies copies;
      copies.Add({source, source_stride, target.data() + to, target_stride, kRow, kRows});
      EXPECT_GT(copies.shares(), 4u);
      CopyPool(0).Run(copies);
      EXPECT_EQ(target, expected) << source_stride << " to " << target_stride;
    }
  }
}

TEST(CopyPoolTest, SeveralThreadsUseItAtOnce) {
  CopyPool pool(3);
  const std::vector<std::byte> source = Pattern(2 * CopyPool::kLeastBytes);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      // Small ones too: below CopyPool::kLeastBytes.
      const std::vector<std::byte> part(source.begin(), source.begin() + (source.size() >> (2 * (k % 2))) - 13);
      for (int round = 0; round < 5; ++round) {
        std::vector<std::byte> target(part.size());
        RowCopies copies;
        copies.Add(Adjacent(part, target, 1));
        pool.Run(copies);
        EXPECT_EQ(target, part);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CopyPoolTest, APoolThatWasNeverNeededEnds) { CopyPool pool(3); }

TEST(CopyPoolTest, LeavesCpusToOthers) {
  EXPECT_LE(CopyPool::DefaultHelpers(), std::thread::hardware_concurrency() / 4);
}

}  // namespace
}  // namespace rnnserve::cuda
