// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/busy_poll.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

constexpr absl::Duration kMost = absl::Microseconds(200);
constexpr absl::Duration kTick = absl::Nanoseconds(1);

// One that has been asked as often as a lone caller takes to be known for one.
BusyPoll WithLoneCaller(absl::Duration most) {
  BusyPoll lookout(most);
  for (int k = 0; k < 8; ++k) lookout.Window(1);
  return lookout;
}

TEST(BusyPoll, LooksForNothingBeforeAnythingHasCome) {
  EXPECT_EQ(WithLoneCaller(kMost).Window(1), absl::ZeroDuration());
}

TEST(BusyPoll, LooksAfterAnEventThatCameSoon) {
  BusyPoll lookout = WithLoneCaller(kMost);
  lookout.Came(kMost);
  EXPECT_EQ(lookout.Window(1), kMost);
  lookout.Came(absl::ZeroDuration());
  EXPECT_EQ(lookout.Window(0), kMost);
}

TEST(BusyPoll, GivesUpAfterAnEventThatCameLate) {
  BusyPoll lookout = WithLoneCaller(kMost);
  lookout.Came(kTick);
  lookout.Came(kMost + kTick);
  EXPECT_EQ(lookout.Window(1), absl::ZeroDuration());
  lookout.Came(kMost);
  EXPECT_EQ(lookout.Window(1), kMost);
}

TEST(BusyPoll, LooksForNobodyWhereSeveralCall) {
  BusyPoll lookout = WithLoneCaller(kMost);
  lookout.Came(kTick);
  EXPECT_EQ(lookout.Window(2), absl::ZeroDuration());
  EXPECT_EQ(lookout.Window(1), absl::ZeroDuration()) << "one of several may have been served alone";
  for (int k = 0; k < 8; ++k) lookout.Window(1);
  EXPECT_EQ(lookout.Window(1), kMost);
}

TEST(BusyPoll, OfZeroNeverLooks) {
  BusyPoll lookout = WithLoneCaller(absl::ZeroDuration());
  lookout.Came(absl::ZeroDuration());
  EXPECT_EQ(lookout.Window(1), absl::ZeroDuration());
}

}  // namespace
}  // namespace rnnserve
