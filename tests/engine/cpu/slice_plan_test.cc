// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/slice_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rnnserve::cpu {
namespace {

using testing::ElementsAre;

std::vector<SequenceSlice> Slices(const std::vector<int64_t>& steps) {
  std::vector<SequenceSlice> slices(steps.size());
  for (size_t k = 0; k < steps.size(); ++k) slices[k].steps = steps[k];
  return slices;
}

std::vector<size_t> GroupSizes(size_t rows) {
  const auto slices = Slices(std::vector<int64_t>(rows, 1));
  SlicePlan plan;
  plan.Sort(slices);
  std::vector<size_t> sizes;
  size_t next = 0;
  for (const RowGroup& group : plan.Groups()) {
    EXPECT_EQ(group.first, next);
    next += group.count;
    sizes.push_back(group.count);
  }
  EXPECT_EQ(next, rows);
  return sizes;
}

TEST(SlicePlanTest, LongestFirstAndStable) {
  const auto slices = Slices({2, 5, 2, 7});
  SlicePlan plan;
  plan.Sort(slices);
  EXPECT_THAT(plan.rows(), ElementsAre(&slices[3], &slices[1], &slices[0], &slices[2]));
}

TEST(SlicePlanTest, SharesHaveLongAndShortRowsAlike) {
  const auto slices = Slices({2, 5, 2, 7, 1});
  SlicePlan first, second;
  first.Sort(slices, 0, 2);
  second.Sort(slices, 1, 2);
  EXPECT_THAT(first.rows(), ElementsAre(&slices[3], &slices[0], &slices[4]));
  EXPECT_THAT(second.rows(), ElementsAre(&slices[1], &slices[2]));
}

TEST(SlicePlanTest, GroupsAreEvenAndBounded) {
  EXPECT_THAT(GroupSizes(0), ElementsAre());
  EXPECT_THAT(GroupSizes(1), ElementsAre(1));
  EXPECT_THAT(GroupSizes(kGroupRows), ElementsAre(kGroupRows));
  EXPECT_THAT(GroupSizes(kGroupRows + 2), ElementsAre(kGroupRows / 2 + 1, kGroupRows / 2 + 1));
}

TEST(SlicePlanTest, ActiveRowsShrinkAndNoPaddingStepIsPlanned) {
  const auto slices = Slices({1, 4, 2, 4});
  SlicePlan plan;
  plan.Sort(slices);
  Stretch stretch;
  ASSERT_TRUE(plan.Plan({0, 4}, 0, 100, stretch));
  EXPECT_THAT(stretch.active, ElementsAre(4, 3, 2, 2));
  EXPECT_EQ(stretch.total, 11u);
  EXPECT_FALSE(plan.Plan({0, 4}, 4, 100, stretch));
}

TEST(SlicePlanTest, StretchesHoldToTheLimitButAlwaysMove) {
  const auto slices = Slices({1, 4, 2, 4});
  SlicePlan plan;
  plan.Sort(slices);
  Stretch stretch;
  ASSERT_TRUE(plan.Plan({0, 4}, 0, 7, stretch));
  EXPECT_THAT(stretch.active, ElementsAre(4, 3));
  ASSERT_TRUE(plan.Plan({0, 4}, 2, 3, stretch));
  EXPECT_THAT(stretch.active, ElementsAre(2));
  ASSERT_TRUE(plan.Plan({0, 4}, 0, 1, stretch));
  EXPECT_THAT(stretch.active, ElementsAre(4));
}

TEST(SlicePlanTest, GroupsSeeOnlyTheirRows) {
  const auto slices = Slices({1, 4, 2, 3});
  SlicePlan plan;
  plan.Sort(slices);
  Stretch stretch;
  ASSERT_TRUE(plan.Plan({2, 2}, 0, 100, stretch));
  EXPECT_THAT(stretch.active, ElementsAre(2, 1));
}

}  // namespace
}  // namespace rnnserve::cpu
