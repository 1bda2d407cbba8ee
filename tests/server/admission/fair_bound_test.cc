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

TEST(FairBound, ASmallBoundKeepsNothing) {
  FairBound bound(2);
  EXPECT_TRUE(Takes(bound, 1, 1));
  EXPECT_TRUE(Takes(bound, 1, 1));
  EXPECT_FALSE(bound.Fits(2, 1));
}

}  // namespace
}  // namespace rnnserve
