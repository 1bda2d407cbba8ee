// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/busy_poll.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

constexpr absl::Duration kMost = absl::Microseconds(200);
constexpr absl::Duration kTick = absl::Nanoseconds(1);
constexpr int kTurns = 8;

void Take(BusyPoll& busy_poll, int64_t calls, int turns) {
  for (int k = 0; k < turns; ++k) busy_poll.Took(calls);
}

BusyPoll WithFewCallers(absl::Duration most) {
  BusyPoll busy_poll(most);
  Take(busy_poll, 1, kTurns);
  return busy_poll;
}

TEST(BusyPoll, KnowsFewCallersAfterSomeTurns) {
  for (const int64_t calls : {1, 2}) {
    BusyPoll busy_poll(kMost);
    EXPECT_EQ(busy_poll.callers(), 3);
    Take(busy_poll, calls, kTurns - 1);
    EXPECT_EQ(busy_poll.callers(), 3) << "one or two of several may have been served alone";
    busy_poll.Took(calls);
    EXPECT_EQ(busy_poll.callers(), calls);
  }
}

TEST(BusyPoll, KnowsMoreCallersByCallsThatAreInFlightTogether) {
  BusyPoll busy_poll = WithFewCallers(kMost);
  busy_poll.Took(2);
  EXPECT_EQ(busy_poll.callers(), 2);
  busy_poll.Took(3);
  EXPECT_EQ(busy_poll.callers(), 3);
  Take(busy_poll, 1, kTurns - 1);
  EXPECT_EQ(busy_poll.callers(), 3);
  busy_poll.Took(1);
  EXPECT_EQ(busy_poll.callers(), 1);
}

TEST(BusyPoll, LooksForMoreCallsWhileThereMayBeSeveralCallers) {
  BusyPoll busy_poll(kMost);
  for (int k = 0; k < kTurns; ++k) {
    EXPECT_TRUE(busy_poll.must_look());
    busy_poll.Took(1);
  }
  Take(busy_poll, 3, kTurns + 1);
  EXPECT_TRUE(busy_poll.must_look());
}

TEST(BusyPoll, LooksForMoreCallsThanFewNowAndThen) {
  BusyPoll busy_poll = WithFewCallers(kMost);
  int looks = 0;
  for (int k = 0; k < 10 * kTurns; ++k) {
    looks += busy_poll.must_look() ? 1 : 0;
    busy_poll.Took(1);
  }
  EXPECT_EQ(looks, 20);
}

TEST(BusyPoll, PollsForNothingBeforeAnythingHasCome) {
  EXPECT_EQ(WithFewCallers(kMost).PollFor(), absl::ZeroDuration());
}

TEST(BusyPoll, PollsAfterAnEventThatCameSoon) {
  BusyPoll busy_poll = WithFewCallers(kMost);
  busy_poll.Came(kMost);
  EXPECT_EQ(busy_poll.PollFor(), kMost);
  busy_poll.Came(absl::ZeroDuration());
  EXPECT_EQ(busy_poll.PollFor(), kMost);
}

TEST(BusyPoll, GivesUpAfterAnEventThatCameLate) {
  BusyPoll busy_poll = WithFewCallers(kMost);
  busy_poll.Came(kTick);
  busy_poll.Came(kMost + kTick);
  EXPECT_EQ(busy_poll.PollFor(), absl::ZeroDuration());
  busy_poll.Came(kMost);
  EXPECT_EQ(busy_poll.PollFor(), kMost);
}

TEST(BusyPoll, PollsForNothingWhereSeveralCall) {
  BusyPoll busy_poll = WithFewCallers(kMost);
  busy_poll.Came(kTick);
  busy_poll.Took(3);
  EXPECT_EQ(busy_poll.PollFor(), absl::ZeroDuration());
  Take(busy_poll, 1, kTurns);
  EXPECT_EQ(busy_poll.PollFor(), kMost);
}

TEST(BusyPoll, OfZeroNeverPolls) {
  BusyPoll busy_poll = WithFewCallers(absl::ZeroDuration());
  busy_poll.Came(absl::ZeroDuration());
  EXPECT_EQ(busy_poll.PollFor(), absl::ZeroDuration());
}

}  // namespace
}  // namespace rnnserve
