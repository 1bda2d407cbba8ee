// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/lookout.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

constexpr absl::Duration kMost = absl::Microseconds(200);
constexpr absl::Duration kTick = absl::Nanoseconds(1);

TEST(Lookout, LooksForNothingBeforeAnythingHasCome) { EXPECT_EQ(Lookout(kMost).window(), absl::ZeroDuration()); }

TEST(Lookout, LooksAfterAnEventThatCameSoon) {
  Lookout lookout(kMost);
  lookout.Came(kMost);
  EXPECT_EQ(lookout.window(), kMost);
  lookout.Came(absl::ZeroDuration());
  EXPECT_EQ(lookout.window(), kMost);
}

TEST(Lookout, GivesUpAfterAnEventThatCameLate) {
  Lookout lookout(kMost);
  lookout.Came(kTick);
  lookout.Came(kMost + kTick);
  EXPECT_EQ(lookout.window(), absl::ZeroDuration());
  lookout.Came(kMost);
  EXPECT_EQ(lookout.window(), kMost);
}

TEST(Lookout, OfZeroNeverLooks) {
  Lookout lookout(absl::ZeroDuration());
  lookout.Came(absl::ZeroDuration());
  EXPECT_EQ(lookout.window(), absl::ZeroDuration());
}

}  // namespace
}  // namespace rnnserve
