// SPDX-License-Identifier: Apache-2.0
// Where rows lie, on examples small enough to draw.
#include "engine/cuda/packing.h"

#include <gtest/gtest.h>

#include <vector>

namespace rnnserve::cuda {
namespace {

// Lengths 5, 3, 3, 1 in blocks of two steps, `row: slice.step`:
//
//   first block    0: a0  1: b0  2: c0  3: d0  4: a1  5: b1  6: c1
//   second block   0: a2  1: b2  2: c2  3: a3
//   third block    0: a4
const std::vector<int64_t> kSteps = {5, 3, 3, 1};

TEST(BlockTest, RaggedSlicesTakeNoPadding) {
  const Block first = MakeBlock(kSteps, 0, 2);
  EXPECT_EQ(first.lengths, (std::vector<int32_t>{2, 2, 2, 1}));
  EXPECT_EQ(first.offsets, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(first.rows, 7);
  EXPECT_EQ(first.continuing, 3);
  EXPECT_FALSE(first.uniform);
  EXPECT_EQ(ActiveAt(first, 0), 4);
  EXPECT_EQ(ActiveAt(first, 1), 3);

  const Block second = MakeBlock(kSteps, 2, 2);
  EXPECT_EQ(second.lengths, (std::vector<int32_t>{2, 1, 1}));
  EXPECT_EQ(second.offsets, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(second.rows, 4);
  EXPECT_EQ(second.continuing, 1);

  const Block third = MakeBlock(kSteps, 4, 2);
  EXPECT_EQ(third.active, 1);
  EXPECT_EQ(third.rows, 1);
  EXPECT_EQ(third.continuing, 0);
  EXPECT_TRUE(third.uniform);
  EXPECT_EQ(MakeBlock(kSteps, 5, 2).active, 0);
}

TEST(BlockTest, RowsFindTheirStep) {
  for (int max_steps = 1; max_steps <= 6; ++max_steps) {
    const Block block = MakeBlock(kSteps, 0, max_steps);
    int64_t row = 0;
    for (int t = 0; t < block.steps; ++t) {
      for (int r = 0; r < ActiveAt(block, t); ++r, ++row) {
        EXPECT_EQ(StepOfRow(block.offsets.data(), block.steps, row), t) << "row " << row;
      }
    }
    EXPECT_EQ(row, block.rows);
  }
}

TEST(BlockTest, OffsetsBeyond32Bits) {
  const std::vector<int64_t> offsets = {0, int64_t{1} << 33, int64_t{1} << 34};
  EXPECT_EQ(StepOfRow(offsets.data(), 3, (int64_t{1} << 33) - 1), 0);
  EXPECT_EQ(StepOfRow(offsets.data(), 3, int64_t{1} << 33), 1);
  const Walk walk{int64_t{1} << 40, -(int64_t{1} << 35)};
  EXPECT_EQ(StagedOffset(&walk, offsets.data(), 3, int64_t{1} << 34), (int64_t{1} << 40) - (int64_t{1} << 36));
}

TEST(WalkTest, AnOutputNobodyWantsHasNoPlace) {
  const Walk walks[] = {{7, 2}, {-1, 0}};
  const int64_t offsets[] = {0, 2};
  EXPECT_EQ(StagedOffset(walks, offsets, 2, 0), 7);
  EXPECT_EQ(StagedOffset(walks, offsets, 2, 1), -1);
  EXPECT_EQ(StagedOffset(walks, offsets, 2, 2), 9);
  EXPECT_EQ(StagedOffset(walks, offsets, 2, 3), -1);
}

// Three steps of two 16-bit elements, from memory and back, whatever the stride. `walk` of the plan must find each
// step.
class StagingTest : public testing::TestWithParam<std::ptrdiff_t> {};

TEST_P(StagingTest, StepsGoInAndComeBack) {
  constexpr int64_t kLength = 3, kWidth = 2, kTarget = 10;
  constexpr size_t kRow = kWidth * sizeof(uint16_t);
  const std::ptrdiff_t stride = GetParam();
  std::vector<std::byte> memory(64, std::byte{0xee});
  const std::ptrdiff_t start = stride < 0 ? 1 - stride * (kLength - 1) : 1;  // an odd address
  for (int64_t t = 0; t < kLength; ++t) {
    const uint16_t step[] = {static_cast<uint16_t>(10 * t), static_cast<uint16_t>(10 * t + 1)};
    std::memcpy(memory.data() + start + t * stride, step, kRow);
  }

  std::vector<uint16_t> staging(32, 0xaaaa);
  auto* target = reinterpret_cast<std::byte*>(staging.data() + kTarget);
  const Staging plan = PlanStaging(stride, kLength, kWidth, sizeof(uint16_t), kTarget);
  EXPECT_EQ(plan.contiguous, stride == 4 || stride == -4);
  CopyRows(StageIn(plan, memory.data() + start, stride, kLength, kRow, target));
  for (int64_t t = 0; t < kLength; ++t) {
    const auto at = static_cast<size_t>(plan.walk.base + t * plan.walk.stride);
    EXPECT_EQ(staging[at], 10 * t);
    EXPECT_EQ(staging[at + 1], 10 * t + 1);
  }
  EXPECT_EQ(staging[kTarget - 1], 0xaaaa);
  EXPECT_EQ(staging[kTarget + kLength * kWidth], 0xaaaa);

  std::vector<std::byte> back(64, std::byte{0xee});
  CopyRows(StageOut(plan, back.data() + start, stride, kLength, kRow, target));
  EXPECT_EQ(back, memory);
}

INSTANTIATE_TEST_SUITE_P(Strides, StagingTest, testing::Values(4, -4, 5, -5, 12, -12));

TEST(StagingPlanTest, OneStepHasNoStride) {
  for (const std::ptrdiff_t stride : {std::ptrdiff_t{0}, std::ptrdiff_t{-8}, PTRDIFF_MAX, PTRDIFF_MIN}) {
    const Staging plan = PlanStaging(stride, 1, 2, 4, 6);
    EXPECT_TRUE(plan.contiguous);
    EXPECT_EQ(plan.walk.base, 6);
    EXPECT_EQ(plan.lowest, 0);
  }
}

TEST(StagingPlanTest, AStrideOfZeroRepeatsAStep) {
  const std::vector<std::byte> memory = {std::byte{1}, std::byte{2}};
  std::vector<std::byte> staged(6);
  const Staging plan = PlanStaging(0, 3, 2, 1, 0);
  EXPECT_FALSE(plan.contiguous);
  CopyRows(StageIn(plan, memory.data(), 0, 3, 2, staged.data()));
  EXPECT_EQ(staged, (std::vector<std::byte>{std::byte{1}, std::byte{2}, std::byte{1}, std::byte{2}, std::byte{1},
                                            std::byte{2}}));
}

}  // namespace
}  // namespace rnnserve::cuda
