// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace rnnserve::rnnctl::bench {
namespace {

using std::chrono::nanoseconds;

TEST(HistogramTest, IsZeroWhileEmpty) {
  const Histogram empty;
  EXPECT_EQ(empty.count(), 0);
  EXPECT_EQ(empty.min(), nanoseconds(0));
  EXPECT_EQ(empty.max(), nanoseconds(0));
  EXPECT_EQ(empty.Mean(), nanoseconds(0));
  EXPECT_EQ(empty.Percentile(99), nanoseconds(0));
  EXPECT_TRUE(empty.Buckets(4).empty());
}

TEST(HistogramTest, IsExactBelow128Nanoseconds) {
  Histogram histogram;
  for (int v = 1; v <= 100; ++v) histogram.Add(nanoseconds(v));
  for (int percent : {1, 37, 50, 64, 65, 99, 100}) {
    EXPECT_EQ(histogram.Percentile(percent), nanoseconds(percent)) << percent;
  }
}

// The oracle is the sorted list itself.
TEST(HistogramTest, PercentilesAreAtMostASixtyFourthTooLarge) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> value(13, 3);
  Histogram histogram;
  std::vector<int64_t> sorted;
  for (int k = 0; k < 10007; ++k) {
    const auto v = static_cast<int64_t>(value(random));
    histogram.Add(nanoseconds(v));
    sorted.push_back(v);
  }
  std::sort(sorted.begin(), sorted.end());
  for (double percent : {0.1, 1.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99}) {
    const auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
    const int64_t exact = sorted[rank - 1];
    const int64_t told = histogram.Percentile(percent).count();
    EXPECT_GE(told, exact) << percent;
    EXPECT_LE(told, exact + exact / 64 + 1) << percent;
  }
  EXPECT_EQ(histogram.max().count(), sorted.back());
  EXPECT_EQ(histogram.min().count(), sorted.front());
  EXPECT_EQ(histogram.Percentile(100).count(), sorted.back());
}

TEST(HistogramTest, CountsRanksAsPeopleDo) {
  Histogram histogram;
  for (int v = 1; v <= 1000; ++v) histogram.Add(nanoseconds(v <= 999 ? 10 : 20));
  EXPECT_EQ(histogram.Percentile(99.9), nanoseconds(10));  // 999 of 1,000
  EXPECT_EQ(histogram.Percentile(99.91), nanoseconds(20));
  EXPECT_EQ(histogram.Percentile(0), nanoseconds(10));
}

TEST(HistogramTest, TakesTheWholeRange) {
  Histogram histogram;
  histogram.Add(nanoseconds(-5));
  histogram.Add(nanoseconds::max());
  EXPECT_EQ(histogram.min(), nanoseconds(0));
  EXPECT_EQ(histogram.max(), nanoseconds::max());
  EXPECT_EQ(histogram.Percentile(50), nanoseconds(0));
  EXPECT_EQ(histogram.Percentile(100), nanoseconds::max());
}

TEST(HistogramTest, MergedIsAsIfAddedToOne) {
  Histogram low, high, all;
  for (int v : {5, 700, 700}) low.Add(nanoseconds(v)), all.Add(nanoseconds(v));
  for (int v : {3, 90000}) high.Add(nanoseconds(v)), all.Add(nanoseconds(v));
  low.Merge(high);
  low.Merge(Histogram());
  EXPECT_EQ(low.count(), 5);
  EXPECT_EQ(low.min(), all.min());
  EXPECT_EQ(low.max(), all.max());
  EXPECT_EQ(low.Mean(), all.Mean());
  for (double percent : {20.0, 40.0, 60.0, 80.0}) EXPECT_EQ(low.Percentile(percent), all.Percentile(percent));
  Histogram empty;
  empty.Merge(low);
  EXPECT_EQ(empty.min(), all.min());
}

TEST(HistogramTest, BucketsHoldEveryValueBelowTheirEnd) {
  Histogram histogram;
  for (int v : {130, 130, 300, 1000}) histogram.Add(nanoseconds(v));
  const std::vector<Histogram::Bucket> buckets = histogram.Buckets(1);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].end, nanoseconds(256));
  EXPECT_EQ(buckets[0].count, 2);
  EXPECT_EQ(buckets[1].end, nanoseconds(512));
  EXPECT_EQ(buckets[1].count, 1);
  EXPECT_EQ(buckets[2].end, nanoseconds(1024));
  EXPECT_EQ(buckets[2].count, 1);
}

}  // namespace
}  // namespace rnnserve::rnnctl::bench
