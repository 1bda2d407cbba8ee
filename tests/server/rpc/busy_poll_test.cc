// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/busy_poll.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

constexpr absl::Duration kMost = absl::Microseconds(200);
constexpr absl::Duration kTick = absl::Nanoseconds(1);
constexpr absl::Duration kTurnaround = absl::Microseconds(10);

// One that knows a lone caller.
BusyPoll WithLoneCaller(absl::Duration most) {
  BusyPoll busy_poll(most);
  for (int k = 0; k < 8; ++k) busy_poll.Took(1, kTurnaround);
  return busy_poll;
}

TEST(BusyPoll, KnowsALoneCallerAfterAFewCalls) {
  BusyPoll busy_poll(kMost);
  EXPECT_FALSE(busy_poll.is_alone());
  busy_poll.Took(1, kTurnaround);
  EXPECT_FALSE(busy_poll.is_alone()) << "one of several may have been served alone";
  EXPECT_TRUE(WithLoneCaller(kMost).is_alone());
}

TEST(BusyPoll, KnowsSeveralCallersByCallsThatComeTogether) {
  BusyPoll busy_poll = WithLoneCaller(kMost);
  busy_poll.Took(2, absl::Seconds(1));
  EXPECT_FALSE(busy_poll.is_alone());
  busy_poll.Took(1, absl::Seconds(1));
  EXPECT_FALSE(busy_poll.is_alone());
}

TEST(BusyPoll, KnowsSeveralCallersByACallThatWasThereBeforeTheLastWasServed) {
  BusyPoll busy_poll = WithLoneCaller(kMost);
  busy_poll.Took(1, kTurnaround - kTick);
  EXPECT_FALSE(busy_poll.is_alone());
}

TEST(BusyPoll, LooksForNothingBeforeAnythingHasCome) {
  EXPECT_EQ(WithLoneCaller(kMost).PollFor(), absl::ZeroDuration());
}

TEST(BusyPoll, LooksAfterAnEventThatCameSoon) {
  BusyPoll busy_poll = WithLoneCaller(kMost);
  busy_poll.Came(kMost);
  EXPECT_EQ(busy_poll.PollFor(), kMost);
  busy_poll.Came(absl::ZeroDuration());
  EXPECT_EQ(busy_poll.PollFor(), kMost);
}

TEST(BusyPoll, GivesUpAfterAnEventThatCameLate) {
  BusyPoll busy_poll = WithLoneCaller(kMost);
  busy_poll.Came(kTick);
  busy_poll.Came(kMost + kTick);
  EXPECT_EQ(busy_poll.PollFor(), absl::ZeroDuration());
  busy_poll.Came(kMost);
  EXPECT_EQ(busy_poll.PollFor(), kMost);
}

TEST(BusyPoll, LooksForNothingWhereSeveralCall) {
  BusyPoll busy_poll = WithLoneCaller(kMost);
  busy_poll.Came(kTick);
  busy_poll.Took(2, kTurnaround);
  EXPECT_EQ(busy_poll.PollFor(), absl::ZeroDuration());
  for (int k = 0; k < 8; ++k) busy_poll.Took(1, kTurnaround);
  EXPECT_EQ(busy_poll.PollFor(), kMost);
}

TEST(BusyPoll, OfZeroNeverLooks) {
  BusyPoll busy_poll = WithLoneCaller(absl::ZeroDuration());
  busy_poll.Came(absl::ZeroDuration());
  EXPECT_EQ(busy_poll.PollFor(), absl::ZeroDuration());
}

}  // namespace
}  // namespace rnnserve
