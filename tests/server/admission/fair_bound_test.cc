// SPDX-License-Identifier: Apache-2.0
#include "server/admission/fair_bound.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

bool Takes(FairBound& bound, uint64_t caller, int64_t amount) {
  if (!bound.Fits(caller, amount)) return false;
  bound.Take(caller, amount);
  return true;
}

TEST(FairBound, OneCallerNeverGetsTheLastEighth) {
  FairBound bound(6400);
  for (int k = 0; k < 5600; ++k) ASSERT_TRUE(Takes(bound, 1, 1));
  EXPECT_FALSE(bound.Fits(1, 1));
  EXPECT_EQ(bound.held(1), 5600);
  bound.Release(1, 1);
  EXPECT_TRUE(bound.Fits(1, 1));
}

TEST(FairBound, TheLastEighthIsForThoseWhoHoldLittle) {
  FairBound bound(6400);
  bound.Take(1, 5600);
  for (int k = 0; k < 100; ++k) EXPECT_TRUE(Takes(bound, 2, 1)) << k;
  EXPECT_FALSE(bound.Fits(2, 1));
  EXPECT_TRUE(bound.Fits(3, 1));
}

TEST(FairBound, WhoHoldsNothingMayTakeWhatIsLeft) {
  FairBound bound(6400);
  bound.Take(1, 5600);
  EXPECT_FALSE(bound.Fits(2, 801));
  EXPECT_TRUE(Takes(bound, 2, 800));
  EXPECT_FALSE(bound.Fits(3, 1));
}

TEST(FairBound, LetsAnythingInWhenNothingIsTaken) {
  FairBound bound(100);
  EXPECT_TRUE(Takes(bound, 1, 1000));
  EXPECT_FALSE(bound.Fits(2, 1));
  bound.Release(1, 1000);
  EXPECT_EQ(bound.used(), 0);
  EXPECT_EQ(bound.held(1), 0);
  EXPECT_TRUE(bound.Fits(2, 101));
}

TEST(FairBound, KnowsCallersThatComeAndGoInTurns) {
  constexpr uint64_t kCallers = 500;
  FairBound bound(1 << 20);
  for (uint64_t caller = 0; caller < kCallers; ++caller) {
    bound.Take(caller, 2);
    bound.Take(0, 1);
    EXPECT_EQ(bound.held(caller), caller == 0 ? 3 : 2);
    bound.Release(caller / 2, 1);  // of an entry that others have moved
    bound.Take(caller / 2, 1);
  }
  EXPECT_EQ(bound.held(0), static_cast<int64_t>(kCallers + 2));
  for (uint64_t caller = 1; caller < kCallers; ++caller) {
    bound.Release(caller, 2);
    EXPECT_EQ(bound.held(caller), 0);
    bound.Release(0, 1);
    bound.Take(caller, 1);
    bound.Release(caller, 1);
  }
  EXPECT_EQ(bound.held(0), 3);
  EXPECT_EQ(bound.used(), 3);
}

TEST(FairBound, ASmallBoundKeepsNothing) {
  FairBound bound(2);
  EXPECT_TRUE(Takes(bound, 1, 1));
  EXPECT_TRUE(Takes(bound, 1, 1));
  EXPECT_FALSE(bound.Fits(2, 1));
}

}  // namespace
}  // namespace rnnserve
