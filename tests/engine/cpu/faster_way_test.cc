// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/faster_way.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

namespace rnnserve::cpu {
namespace {

// Of `runs` runs that take so long each way, those that went the first one.
int First(HalvingWay& record, int runs, double first, double second, bool expected = false) {
  int count = 0;
  for (int k = 0; k < runs; ++k) {
    const bool is_first = record.Next(expected);
    record.Ran(is_first, is_first ? first : second);
    count += is_first ? 1 : 0;
  }
  return count;
}

TEST(FasterWayTest, BeginsAsExpected) {
  for (const bool expected : {false, true}) {
    HalvingWay record;
    EXPECT_EQ(record.Next(expected), expected);
  }
}

TEST(FasterWayTest, TakesTheFasterWay) {
  HalvingWay record;
  First(record, 64, 1, 1.1);
  EXPECT_GT(First(record, 128, 1, 1.1), 120);
  HalvingWay other;
  First(other, 64, 1.1, 1, true);
  EXPECT_LT(First(other, 128, 1.1, 1, true), 8);
}

TEST(FasterWayTest, FollowsTheMachine) {
  HalvingWay record;
  First(record, 300, 1, 1.5);
  First(record, 600, 1.5, 1);
  EXPECT_LT(First(record, 128, 1.5, 1), 8);
}

TEST(FasterWayTest, ATieStays) {
  HalvingWay record;
  EXPECT_LE(First(record, 256, 0.99, 1), 16);
}

TEST(FasterWayTest, OneStallChangesNothing) {
  HalvingWay record;
  First(record, 100, 1, 1.2, true);
  const bool is_first = record.Next(true);
  record.Ran(is_first, 100);
  EXPECT_TRUE(record.Next(true));
}

// Its first runs are slow: the helper's thread wakes, caches are cold.
TEST(FasterWayTest, ABadBeginIsSoonForgotten) {
  HalvingWay record;
  First(record, 8, 1.9, 1.05, true);
  First(record, 40, 1, 1.05, true);
  EXPECT_GT(First(record, 128, 1, 1.05, true), 120);
}

// Runs of a way that has not run for a while take longer, up to the third: its weights have left the near caches.
TEST(FasterWayTest, AWayThatHasToWarmUpIsFoundAgain) {
  TilesWay record;
  bool last = true;
  int in_a_row = 0;
  const auto firsts = [&](int runs, double disturbed) {
    int count = 0;
    for (int k = 0; k < runs; ++k) {
      const bool is_first = record.Next(true);
      in_a_row = std::exchange(last, is_first) == is_first ? in_a_row + 1 : 0;
      constexpr double kCold[] = {2, 1.7, 1.1}, kWarm = 1;
      const double cold = in_a_row < 3 ? kCold[in_a_row] : kWarm;
      record.Ran(is_first, is_first ? cold * disturbed : 1.4 * (in_a_row == 0 ? 1.2 : 1));
      count += is_first ? 1 : 0;
    }
    return count;
  };
  EXPECT_GT(firsts(256, 1), 230);
  firsts(256, 2);  // a neighbour slows the first way down
  EXPECT_LT(firsts(64, 2), 16);
  firsts(128, 1);
  EXPECT_GT(firsts(128, 1), 110);
}

// Each run takes longer than it need, by up to a tenth, and some far longer.
TEST(FasterWayTest, NoiseHidesNoGain) {
  HalvingWay record;
  std::mt19937 random(1);
  const auto noisy = [&random](double seconds) {
    return seconds * (random() % 32 == 0 ? 2 : 1 + 0.1 * static_cast<double>(random() % 1000) / 1000);
  };
  int firsts = 0;
  for (int k = 0; k < 4000; ++k) {
    const bool is_first = record.Next(false);
    record.Ran(is_first, noisy(is_first ? 1 : 1.06));
    firsts += is_first ? 1 : 0;
  }
  EXPECT_GT(firsts, 3400);
}

// The first choice gains, the second one loses, and both begin with what costs together as much as neither.
TEST(FasterWayTest, TwoChoicesOfTheSameRuns) {
  HalvingWay one;
  TilesWay other;
  int best = 0;
  for (int k = 0; k < 600; ++k) {
    const bool first = one.Next(true), second = other.Next(true);
    const double seconds = (first ? 0.7 : 1) * (second ? 1.6 : 1);
    one.Ran(first, seconds);
    other.Ran(second, seconds);
    best += k >= 472 && first && !second ? 1 : 0;
  }
  EXPECT_GT(best, 110);
}

}  // namespace
}  // namespace rnnserve::cpu
