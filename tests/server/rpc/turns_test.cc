// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/turns.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

// How many of `messages` are read late.
int Late(Turns& turns, int messages, bool nothing_in_flight) {
  int late = 0;
  for (int k = 0; k < messages; ++k) {
    turns.Came(nothing_in_flight);
    late += turns.ReadsLate() ? 1 : 0;
  }
  return late;
}

TEST(Turns, ReadsLateOnceTheCallerHasWaitedAFewTimes) {
  Turns turns;
  EXPECT_EQ(Late(turns, 3, true), 0);
  EXPECT_EQ(Late(turns, 1, true), 1);
  EXPECT_GE(Late(turns, 1'000, true), 900);
}

TEST(Turns, ReadsAtOnceForACallerThatSendsAhead) {
  Turns turns;
  EXPECT_EQ(Late(turns, 1'000, false), 0);
}

TEST(Turns, OneWaitAmongMessagesSentAheadTellsNothing) {
  Turns turns;
  for (int k = 0; k < 100; ++k) EXPECT_EQ(Late(turns, 3, true) + Late(turns, 1, false), 0) << k;
}

TEST(Turns, NoticesThatTheCallerBeginsToSendAhead) {
  Turns turns;
  Late(turns, 1'000, true);
  Late(turns, 100, false);  // read late, these could not be seen to come ahead
  EXPECT_EQ(Late(turns, 1'000, false), 0);
}

}  // namespace
}  // namespace rnnserve
