// SPDX-License-Identifier: Apache-2.0
#include "server/transport/pace.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

TEST(Pace, SomeAtOnceThenOneEachSoLong) {
  absl::Time now = absl::FromUnixSeconds(1000);
  Pace pace(absl::Milliseconds(2), 3);
  const auto may = [&] { return pace.next() <= now; };
  for (int k = 0; k < 3; ++k) {
    EXPECT_TRUE(may()) << k;
    pace.Take(now);
  }
  for (int k = 0; k < 3; ++k) {
    now += absl::Milliseconds(2) - absl::Nanoseconds(1);
    EXPECT_FALSE(may()) << k;
    now += absl::Nanoseconds(1);
    EXPECT_TRUE(may()) << k;
    pace.Take(now);
  }
}

TEST(Pace, ARestGivesBackNoMoreThanThose) {
  absl::Time now = absl::FromUnixSeconds(1000);
  Pace pace(absl::Milliseconds(2), 3);
  for (int k = 0; k < 3; ++k) pace.Take(now);
  now += absl::Hours(1);
  for (int k = 0; k < 3; ++k) {
    EXPECT_LE(pace.next(), now) << k;
    pace.Take(now);
  }
  EXPECT_EQ(pace.next(), now + absl::Milliseconds(2));
}

TEST(Pace, WhatTookLongerDelaysTheNextOnes) {
  absl::Time now = absl::FromUnixSeconds(1000);
  Pace pace(absl::Milliseconds(2), 3);
  for (int k = 0; k < 3; ++k) {
    pace.Delay(now, absl::Milliseconds(1));
    pace.Take(now);
  }
  EXPECT_EQ(pace.next(), now + absl::Milliseconds(5));
}

}  // namespace
}  // namespace rnnserve
