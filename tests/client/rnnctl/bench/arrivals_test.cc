// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>

#include "client/rnnctl/bench/stability.h"

namespace rnnserve::rnnctl::bench {
namespace {

using std::chrono::nanoseconds;

TEST(PoissonArrivalsTest, HasTheRateAndTheSpreadOfExponentialGaps) {
  constexpr int kCount = 200000;
  PoissonArrivals arrivals(1000, 3, nanoseconds(17));
  double sum = 0, squares = 0;
  nanoseconds before(17);
  for (int k = 0; k < kCount; ++k) {
    ASSERT_GE(arrivals.next(), before);
    const double gap_s = std::chrono::duration<double>(arrivals.next() - before).count();
    sum += gap_s;
    squares += gap_s * gap_s;
    before = arrivals.next();
    arrivals.Advance();
  }
  const double mean = sum / kCount;
  // The mean of n gaps scatters by 1 / sqrt(n): five of those.
  EXPECT_NEAR(mean, 1e-3, 5e-3 / std::sqrt(kCount));
  // Mean and standard deviation of an exponential distribution are equal.
  EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean) / mean, 1, 0.03);
}

TEST(PoissonArrivalsTest, DependsOnTheSeedAlone) {
  PoissonArrivals one(50, 1, nanoseconds(0)), same(50, 1, nanoseconds(0)), other(50, 2, nanoseconds(0));
  EXPECT_EQ(one.next(), same.next());
  EXPECT_NE(one.next(), other.next());
}

TEST(PoissonArrivalsTest, StaysInRangeAtAbsurdRates) {
  PoissonArrivals slow(1e-300, 1, nanoseconds(0));
  EXPECT_EQ(slow.next(), std::chrono::hours(24));
}

TEST(StabilityTest, NeedsThreeWindowsWithinTheTolerance) {
  EXPECT_FALSE(IsStable({}, 0.1));
  EXPECT_FALSE(IsStable({{100, 1}, {100, 1}}, 0.1));
  EXPECT_TRUE(IsStable({{100, 1}, {100, 1}, {100, 1}}, 0.1));
  EXPECT_TRUE(IsStable({{95, 1}, {100, 1}, {105, 1}}, 0.051));
  EXPECT_FALSE(IsStable({{95, 1}, {100, 1}, {105, 1}}, 0.049));
}

TEST(StabilityTest, LooksAtLatencyToo) {
  EXPECT_FALSE(IsStable({{100, 1}, {100, 1}, {100, 2}}, 0.1));
  EXPECT_FALSE(IsStable({{100, 2}, {100, 1}, {100, 1}}, 0.1));
}

TEST(StabilityTest, NothingIsNotStable) { EXPECT_FALSE(IsStable({{0, 0}, {0, 0}, {0, 0}}, 0.1)); }

}  // namespace
}  // namespace rnnserve::rnnctl::bench
