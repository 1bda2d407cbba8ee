// SPDX-License-Identifier: Apache-2.0
// All threads of a launch together take every element once, and nothing beside it.
#include "engine/cuda/geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/cuda/resident_plan.h"

namespace rnnserve::cuda {
namespace {

template <typename Fn>
void ForEachThread(int blocks, RowThreads threads, Fn fn) {
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t y = 0; y < threads.down; ++y) {
      for (int64_t x = 0; x < threads.across; ++x)
        fn(ThreadPosition{block, blocks, x, threads.across, y, threads.down});
    }
  }
}

void ExpectRowsOnce(int64_t rows, int64_t width) {
  SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
  const RowThreads threads = RowThreadsOf(width);
  EXPECT_EQ(threads.across * threads.down, kThreads);
  const int blocks = Blocks(rows, threads.down);
  EXPECT_GE(blocks, 1);
  EXPECT_LE(blocks, kMostBlocks);
  std::vector<uint8_t> taken(static_cast<size_t>(rows * width));
  ForEachThread(blocks, threads, [&](const ThreadPosition& at) {
    for (int64_t row = FirstRow(at); row < rows; row += RowStep(at)) {
      const RowShare share = RowShareOf(at);
      for (int64_t k = share.first; k < width; k += share.step) ++taken.at(static_cast<size_t>(row * width + k));
    }
  });
  EXPECT_TRUE(std::ranges::all_of(taken, [](uint8_t times) { return times == 1; }));
}

TEST(GeometryTest, RowsOfEveryWidth) {
  for (const int64_t width : {1, 2, 3, 31, 64, 255, 256, 257, 1000}) {
    for (const int64_t rows : {0, 1, 2, 7, 256, 300}) ExpectRowsOnce(rows, width);
  }
}

TEST(GeometryTest, MoreRowsThanALaunchHasBlocks) { ExpectRowsOnce(kMostBlocks + 7, 130); }

TEST(GeometryTest, UnitsOnce) {
  for (const int64_t units : {int64_t{1}, int64_t{255}, int64_t{256}, int64_t{257}, kMostBlocks * kThreads + 300}) {
    std::vector<uint8_t> taken(static_cast<size_t>(units));
    ForEachThread(Blocks(units, kThreads), {kThreads, 1}, [&](const ThreadPosition& at) {
      for (int64_t unit = FirstUnit(at); unit < units; unit += UnitStep(at)) ++taken.at(static_cast<size_t>(unit));
    });
    EXPECT_TRUE(std::ranges::all_of(taken, [](uint8_t times) { return times == 1; })) << units << " units";
  }
}

TEST(GeometryTest, SizesBeyond32Bits) {
  EXPECT_EQ(Blocks(int64_t{1} << 40, 1), kMostBlocks);
  const ThreadPosition last{kMostBlocks - 1, kMostBlocks, 255, kThreads, 0, 1};
  EXPECT_EQ(FirstUnit(last) + 1, kMostBlocks * kThreads);
  EXPECT_EQ(FirstRow({int64_t{1} << 31, 1, 0, 1, 3, 256}), (int64_t{1} << 39) + 3);
}

TEST(GeometryTest, ResidentPlansHoldEveryUnitOnce) {
  const ResidentLimits h100{132, size_t{227} << 10};
  for (const int gates : {1, 3, 4}) {
    for (const int64_t hidden : {4, 36, 128, 512, 516, 1024}) {
      for (const int64_t rows : {1, 2, 3, 8, 64, 5000}) {
        const ResidentPlan plan = PlanResident(h100, gates, hidden, rows);
        SCOPED_TRACE(testing::Message() << gates << " gates, H " << hidden << ", N " << rows);
        EXPECT_GE(int64_t{plan.units} * plan.blocks, hidden);
        EXPECT_LT(int64_t{plan.units} * (plan.blocks - 1), hidden) << "no block without units";
        EXPECT_LE(plan.blocks, h100.processors);
        EXPECT_LE(plan.shared_bytes, h100.shared_bytes);
        EXPECT_EQ(plan.stage_rows % plan.tile_rows, 0);
        EXPECT_GT(plan.stage_rows, 0);
        EXPECT_TRUE(plan.stages == 2 || plan.stage_rows >= rows) << "all rows in one stage, or two stages";
        EXPECT_TRUE(gates > 1 || plan.units % 4 == 0) << "a tile of RNN is four units";
      }
    }
  }
  EXPECT_EQ(PlanResident(h100, 4, 2048, 1).units, 0) << "R does not fit";
  EXPECT_EQ(PlanResident(h100, 1, 2048, 1).units, 16);
  EXPECT_EQ(PlanResident(h100, 4, 130, 1).units, 0) << "rows that are no multiples of 16 bytes";
  EXPECT_EQ(PlanResident(h100, 4, int64_t{1} << 40, 1).units, 0);
  EXPECT_EQ(PlanResident({132, 0}, 4, 128, 1).units, 0) << "no cooperative launch";
}

}  // namespace
}  // namespace rnnserve::cuda
