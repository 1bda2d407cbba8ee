// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/halving_record.h"

#include <gtest/gtest.h>

#include <random>

namespace rnnserve::cpu {
namespace {

// Of `runs` runs that take so long each way, those that were halved.
int Halved(HalvingRecord& record, int runs, double halved, double shared, bool expected = false) {
  int count = 0;
  for (int k = 0; k < runs; ++k) {
    const bool halve = record.Next(expected);
    record.Ran(halve, halve ? halved : shared);
    count += halve ? 1 : 0;
  }
  return count;
}

TEST(HalvingRecordTest, BeginsAsExpected) {
  for (const bool expected : {false, true}) {
    HalvingRecord record;
    EXPECT_EQ(record.Next(expected), expected);
  }
}

TEST(HalvingRecordTest, TakesTheFasterWay) {
  HalvingRecord record;
  Halved(record, 64, 1, 1.1);
  EXPECT_GT(Halved(record, 128, 1, 1.1), 120);
  HalvingRecord other;
  Halved(other, 64, 1.1, 1, true);
  EXPECT_LT(Halved(other, 128, 1.1, 1, true), 8);
}

TEST(HalvingRecordTest, FollowsTheMachine) {
  HalvingRecord record;
  Halved(record, 300, 1, 1.5);
  Halved(record, 600, 1.5, 1);
  EXPECT_LT(Halved(record, 128, 1.5, 1), 8);
}

TEST(HalvingRecordTest, ATieStays) {
  HalvingRecord record;
  EXPECT_LE(Halved(record, 256, 0.99, 1), 16);
}

TEST(HalvingRecordTest, OneStallChangesNothing) {
  HalvingRecord record;
  Halved(record, 100, 1, 1.2, true);
  const bool halve = record.Next(true);
  record.Ran(halve, 100);
  EXPECT_TRUE(record.Next(true));
}

// Its first runs are slow: the helper's thread wakes, caches are cold.
TEST(HalvingRecordTest, ABadBeginIsSoonForgotten) {
  HalvingRecord record;
  Halved(record, 8, 1.9, 1.05, true);
  Halved(record, 40, 1, 1.05, true);
  EXPECT_GT(Halved(record, 128, 1, 1.05, true), 120);
}

// Each run takes longer than it need, by up to a tenth, and some far longer.
TEST(HalvingRecordTest, NoiseHidesNoGain) {
  HalvingRecord record;
  std::mt19937 random(1);
  const auto noisy = [&random](double seconds) {
    return seconds * (random() % 32 == 0 ? 2 : 1 + 0.1 * static_cast<double>(random() % 1000) / 1000);
  };
  int halved = 0;
  for (int k = 0; k < 4000; ++k) {
    const bool halve = record.Next(false);
    record.Ran(halve, noisy(halve ? 1 : 1.06));
    halved += halve ? 1 : 0;
  }
  EXPECT_GT(halved, 3400);
}

}  // namespace
}  // namespace rnnserve::cpu
