// SPDX-License-Identifier: Apache-2.0
#include "server/models/known_plans.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rnnserve {
namespace {

class KnownPlansTest : public testing::Test {
 protected:
  // X [steps, rows, 2] of zeros, from a place of its own.
  NamedTensor X(int64_t steps, int64_t rows = 1, DataType type = DataType::kFloat) {
    const auto bytes = static_cast<size_t>(steps * rows * 2) * ByteSize(type);
    places_.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    return {"X", {type, {steps, rows, 2}, *places_.back()}};
  }
  static RunPlan PlanFor(const NamedTensor& x) {
    RunPlan plan;
    plan.steps = x.tensor.shape[0];
    plan.rows = x.tensor.shape[1];
    plan.lengths.assign(static_cast<size_t>(plan.rows), plan.steps);
    plan.x = x.tensor;
    OutputPlans::List outputs(1);
    outputs[0].name = "Y";
    plan.outputs = OutputPlans(std::move(outputs));
    return plan;
  }
  void Keep(const NamedTensor& x, const std::vector<std::string>& wanted = {}, const RunOptions& options = {}) {
    known_.Keep({&x, 1}, wanted, options, PlanFor(x));
  }
  std::optional<RunPlan> Find(const NamedTensor& x, const std::vector<std::string>& wanted = {},
                              const RunOptions& options = {}) {
    return known_.Find({&x, 1}, wanted, options);
  }

  std::vector<std::unique_ptr<std::vector<std::byte>>> places_;
  KnownPlans known_;
};

TEST_F(KnownPlansTest, AnotherRequestOfTheShapeHasThePlanAndItsOwnData) {
  Keep(X(3));
  const NamedTensor again = X(3);
  const std::optional<RunPlan> plan = Find(again);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->steps, 3);
  EXPECT_EQ(plan->lengths[0], 3);
  EXPECT_EQ(plan->outputs[0].name, "Y");
  EXPECT_EQ(plan->x.data.data(), again.tensor.data.data());
}

TEST_F(KnownPlansTest, EachDifferenceMakesAnotherPlan) {
  Keep(X(3), {"Y"});
  EXPECT_TRUE(Find(X(3), {"Y"}));
  EXPECT_FALSE(Find(X(4), {"Y"}));
  EXPECT_FALSE(Find(X(3), {}));
  EXPECT_FALSE(Find(X(3), {"Y_h"}));
  EXPECT_FALSE(Find(X(3), {"Y", "Y_h"}));
  EXPECT_FALSE(Find(X(3, 1, DataType::kDouble), {"Y"}));
  EXPECT_FALSE(Find(X(3), {"Y"}, {.in_session = true}));
  EXPECT_FALSE(Find(X(3), {"Y"}, {.empty_row_state = EmptyRowState::kInitial}));
  NamedTensor other_name = X(3);
  other_name.name = "Z";
  EXPECT_FALSE(Find(other_name, {"Y"}));
  NamedTensor too_short = X(3);
  too_short.tensor.data = too_short.tensor.data.first(4);
  EXPECT_FALSE(Find(too_short, {"Y"})) << "such a request is refused by PlanRun";
  const std::vector<NamedTensor> two = {X(3), X(3)};
  EXPECT_FALSE(known_.Find(two, std::vector<std::string>{"Y"}, {}));
}

TEST_F(KnownPlansTest, OnlyWhatFollowsFromShapesIsKept) {
  const NamedTensor rows = X(3, 9);
  Keep(rows);
  EXPECT_FALSE(Find(rows)) << "of many rows";
  const NamedTensor x = X(3);
  RunPlan of_pipeline = PlanFor(x);
  of_pipeline.data.resize(1);
  known_.Keep({&x, 1}, {}, {}, of_pipeline);
  EXPECT_FALSE(Find(x)) << "of a pipeline";
  RunPlan of_many_outputs = PlanFor(x);
  of_many_outputs.outputs = OutputPlans(OutputPlans::List(5));
  known_.Keep({&x, 1}, {}, {}, of_many_outputs);
  EXPECT_FALSE(Find(x)) << "of many outputs";
  const std::vector<NamedTensor> two = {x, x};
  known_.Keep(two, {}, {}, PlanFor(x));
  EXPECT_FALSE(known_.Find(two, {}, {})) << "of two tensors, lengths perhaps";
}

TEST_F(KnownPlansTest, TheOldestGoesFirst) {
  for (int64_t steps = 1; steps <= 5; ++steps) Keep(X(steps));
  EXPECT_FALSE(Find(X(1)));
  for (int64_t steps = 2; steps <= 5; ++steps) EXPECT_TRUE(Find(X(steps))) << steps;
}

}  // namespace
}  // namespace rnnserve
