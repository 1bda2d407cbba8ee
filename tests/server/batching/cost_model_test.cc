// SPDX-License-Identifier: Apache-2.0
#include "server/batching/cost_model.h"

#include <gtest/gtest.h>

#include <random>

namespace rnnserve {
namespace {

constexpr double kStep = 40e-6, kRow = 7e-6;

double True(int64_t steps, int64_t row_steps) {
  return kStep * static_cast<double>(steps) + kRow * static_cast<double>(row_steps);
}

TEST(CostModel, IsNotKnownBeforeItHasSeenSlices) {
  CostModel cost(1 << 20, 1 << 18);
  EXPECT_FALSE(cost.is_known());
  EXPECT_GT(cost.Seconds(1, 1), 0);
  for (int k = 0; k < 10; ++k) cost.Learn(1, 1, True(1, 1));
  EXPECT_TRUE(cost.is_known());
}

TEST(CostModel, LearnsBothPartsFromAWrongGuess) {
  CostModel cost(100, 1 << 22);
  std::mt19937_64 dice(7);
  for (int k = 0; k < 200; ++k) {
    const int64_t steps = 1 + static_cast<int64_t>(dice() % 50), rows = 1 + static_cast<int64_t>(dice() % 40);
    const double scatter = 0.95 + static_cast<double>(dice() % 100) / 1000;
    cost.Learn(steps, steps * rows, scatter * True(steps, steps * rows));
  }
  EXPECT_NEAR(cost.step_seconds(), kStep, 0.1 * kStep);
  EXPECT_NEAR(cost.row_seconds(), kRow, 0.1 * kRow);
}

TEST(CostModel, HardlyMindsSlicesThatWereInterrupted) {
  CostModel cost(1 << 20, 1 << 18);
  for (int k = 0; k < 200; ++k) {
    const int64_t rows = 1 + k % 30;
    cost.Learn(10, 10 * rows, True(10, 10 * rows) * (k % 20 == 0 ? 100 : 1));
  }
  EXPECT_NEAR(cost.Seconds(10, 100), True(10, 100), 0.1 * True(10, 100));
}

TEST(CostModel, FollowsWhatItSeesWhenAllSlicesAreAlike) {
  CostModel cost(1 << 20, 1 << 18);
  for (int k = 0; k < 200; ++k) cost.Learn(20, 320, 2e-3);
  EXPECT_NEAR(cost.Seconds(20, 320), 2e-3, 1e-5);
  EXPECT_GT(cost.step_seconds(), 0);
  EXPECT_GT(cost.row_seconds(), 0);
}

TEST(CostModel, FollowsAMachineThatBecomesSlower) {
  CostModel cost(1 << 20, 1 << 18);
  for (int k = 0; k < 500; ++k) cost.Learn(4, 4 * (1 + k % 16), True(4, 4 * (1 + k % 16)));
  for (int k = 0; k < 500; ++k) cost.Learn(4, 4 * (1 + k % 16), 3 * True(4, 4 * (1 + k % 16)));
  EXPECT_NEAR(cost.Seconds(4, 32), 3 * True(4, 32), 0.1 * True(4, 32));
}

}  // namespace
}  // namespace rnnserve
