// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/faster_way.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace rnnserve::cpu {
namespace {

// Of `runs` runs that take so long each way, those that went the first one.
int First(HalvingWay& record, int runs, double first, double second, bool expected = false) {
  int count = 0;
  for (int k = 0; k < runs; ++k) {
    const bool is_first = record.Next(expected);
    record.Ran(is_first ? first : second);
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
  record.Next(true);
  record.Ran(100);
  EXPECT_TRUE(record.Next(true));
}

// Its first runs are slow: the helper's thread wakes, caches are cold.
TEST(FasterWayTest, ABadBeginIsSoonForgotten) {
  HalvingWay record;
  First(record, 8, 1.9, 1.05, true);
  First(record, 40, 1, 1.05, true);
  EXPECT_GT(First(record, 128, 1, 1.05, true), 120);
}

// What a run takes more than a warm one, by the runs of its way before it: its weights have left the near caches.
class Warming {
 public:
  double Next(bool way) {
    before_ = way == way_ ? before_ + 1 : 0;
    way_ = way;
    constexpr std::array kCold = {2.0, 1.7, 1.1};
    return before_ < kCold.size() ? kCold[before_] : 1;
  }

 private:
  bool way_ = false;
  size_t before_ = 0;
};

TEST(FasterWayTest, AWayThatHasToWarmUpIsFoundAgain) {
  TilesWay record;
  Warming warming;
  const auto firsts = [&](int runs, double disturbed) {
    int count = 0;
    for (int k = 0; k < runs; ++k) {
      const bool is_first = record.Next(true);
      record.Ran(warming.Next(is_first) * (is_first ? disturbed : 1.4));
      count += is_first ? 1 : 0;
    }
    return count;
  };
  EXPECT_GT(firsts(256, 1), 220);
  firsts(256, 2);  // a neighbour slows the first way down
  EXPECT_LT(firsts(104, 2), 8);
  firsts(208, 1);
  EXPECT_GT(firsts(208, 1), 195);
}

TEST(FasterWayTest, ATieThatHasToWarmUpStays) {
  TilesWay record;
  Warming warming;
  int tried = 0;
  for (int k = 0; k < 6400; ++k) {
    const bool is_first = record.Next(true);
    record.Ran(warming.Next(is_first));
    tried += is_first ? 0 : 1;
  }
  EXPECT_LT(tried, 200);
}

TEST(FasterWayTest, AHopelessTryEndsAtOnce) {
  HalvingWay record;
  First(record, 64, 1, 5, true);
  EXPECT_EQ(First(record, 640, 1, 5, true), 632);
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
    record.Ran(noisy(is_first ? 1 : 1.06));
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
    one.Ran(seconds);
    other.Ran(seconds);
    best += k >= 472 && first && !second ? 1 : 0;
  }
  EXPECT_GT(best, 110);
}

// The same where each change of either cools the caches. Their tries begin together, at other times, or apart.
TEST(FasterWayTest, TwoChoicesThatHaveToWarmUp) {
  for (int offset = 0; offset < 16; ++offset) {
    HalvingWay one;
    TilesWay other;
    for (int k = 0; k < offset; ++k) one.Next(true);
    Warming of_one, of_other;
    int best = 0;
    for (int k = 0; k < 1600; ++k) {
      const bool first = one.Next(true), second = other.Next(true);
      const double seconds =
          (first ? 0.7 : 1) * (second ? 1.6 : 1) * std::max(of_one.Next(first), of_other.Next(second));
      const bool tries_one = one.is_trying(), tries_other = other.is_trying();
      if (!tries_other) one.Ran(seconds);
      if (!tries_one) other.Ran(seconds);
      best += k >= 1088 && first && !second ? 1 : 0;
    }
    EXPECT_GT(best, 450) << "of 512, offset " << offset;
  }
}

}  // namespace
}  // namespace rnnserve::cpu
