// SPDX-License-Identifier: Apache-2.0
#include "server/transport/handshake_window.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rnnserve {
namespace {

TEST(HandshakeWindow, WhoOnlyHoldsGetsAFewPlacesAndThenOneATurn) {
  HandshakeWindow window;
  EXPECT_EQ(window.Places(0, 0), 16u);
  EXPECT_EQ(window.Places(16, 0), 1u);
  EXPECT_EQ(window.Places(17, 0), 1u);
  EXPECT_EQ(window.Places(10, 0), 6u);
}

TEST(HandshakeWindow, GrowsAsThoseOnTrialCallAndIsBounded) {
  HandshakeWindow window;
  size_t places = window.Places(0, 0), last = 0;
  for (; places > last; places = window.Places(0, places)) {
    EXPECT_GE(places, std::min(2 * last, size_t{256}));
    last = places;
    if (places == 256) break;
  }
  EXPECT_EQ(places, 256u);
  EXPECT_EQ(window.Places(0, ~size_t{0}), 256u);
}

TEST(HandshakeWindow, IsSmallAgainOnceItIsFullOfThoseWhoDoNotCall) {
  HandshakeWindow window;
  EXPECT_EQ(window.Places(0, 100), 216u);
  EXPECT_EQ(window.Places(216, 0), 1u);
  EXPECT_EQ(window.Places(17, 0), 1u);
  EXPECT_EQ(window.Places(0, 0), 16u);
}

// Places are paid for with calls: of those that do, each brings two more at most.
TEST(HandshakeWindow, ATrickleOfCallsOpensNoGate) {
  HandshakeWindow window;
  window.Places(0, 0);
  size_t waiting = 16, handed = 0;
  for (int turn = 0; turn < 50; ++turn) {
    const size_t places = window.Places(waiting, turn % 10 == 0);
    waiting += places;
    handed += places;
  }
  EXPECT_LE(handed, 60u);
}

}  // namespace
}  // namespace rnnserve
