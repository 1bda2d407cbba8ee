// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/halving_record.h"

#include <gtest/gtest.h>

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
  Halved(record, 10, 1, 1.1);
  EXPECT_GT(Halved(record, 128, 1, 1.1), 120);
  HalvingRecord other;
  Halved(other, 10, 1.1, 1, true);
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
  EXPECT_LE(Halved(record, 256, 0.99, 1), 8);
}

TEST(HalvingRecordTest, OneStallChangesNothing) {
  HalvingRecord record;
  Halved(record, 100, 1, 1.2, true);
  const bool halve = record.Next(true);
  record.Ran(halve, 100);
  EXPECT_TRUE(record.Next(true));
}

}  // namespace
}  // namespace rnnserve::cpu
