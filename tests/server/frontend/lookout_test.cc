// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/lookout.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

constexpr absl::Duration kMost = absl::Microseconds(200);
constexpr absl::Duration kTick = absl::Nanoseconds(1);

// One that has been asked as often as a lone caller takes to be known for one.
Lookout WithLoneCaller(absl::Duration most) {
  Lookout lookout(most);
  for (int k = 0; k < 8; ++k) lookout.Window(1);
  return lookout;
}

TEST(Lookout, LooksForNothingBeforeAnythingHasCome) {
  EXPECT_EQ(WithLoneCaller(kMost).Window(1), absl::ZeroDuration());
}

TEST(Lookout, LooksAfterAnEventThatCameSoon) {
  Lookout lookout = WithLoneCaller(kMost);
  lookout.Came(kMost);
  EXPECT_EQ(lookout.Window(1), kMost);
  lookout.Came(absl::ZeroDuration());
  EXPECT_EQ(lookout.Window(0), kMost);
}

TEST(Lookout, GivesUpAfterAnEventThatCameLate) {
  Lookout lookout = WithLoneCaller(kMost);
  lookout.Came(kTick);
  lookout.Came(kMost + kTick);
  EXPECT_EQ(lookout.Window(1), absl::ZeroDuration());
  lookout.Came(kMost);
  EXPECT_EQ(lookout.Window(1), kMost);
}

TEST(Lookout, LooksForNobodyWhereSeveralCall) {
  Lookout lookout = WithLoneCaller(kMost);
  lookout.Came(kTick);
  EXPECT_EQ(lookout.Window(2), absl::ZeroDuration());
  EXPECT_EQ(lookout.Window(1), absl::ZeroDuration()) << "one of several may have been served alone";
  for (int k = 0; k < 8; ++k) lookout.Window(1);
  EXPECT_EQ(lookout.Window(1), kMost);
}

TEST(Lookout, OfZeroNeverLooks) {
  Lookout lookout = WithLoneCaller(absl::ZeroDuration());
  lookout.Came(absl::ZeroDuration());
  EXPECT_EQ(lookout.Window(1), absl::ZeroDuration());
}

}  // namespace
}  // namespace rnnserve
