// SPDX-License-Identifier: Apache-2.0
// A model runs one step before its name means it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/batching/cellular_scheduler.h"
#include "server/core/core.h"
#include "tests/server/core/fake_engine.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class WarmUpTest : public testing::Test {
 protected:
  WarmUpTest() {
    store_.SetWarmUp([this](LoadedModel& loaded) { return core_.WarmUp(loaded); });
  }

  absl::StatusOr<LoadedModel> Load(float w, const std::string& engine = "fake") {
    OperatorDef op;
    op.op_type = "RNN";
    op.version = 14;
    values_ = {w, 0.25f};
    const auto bytes = std::as_bytes(std::span(values_));
    const std::vector<NamedTensor> weights = {{"W", {DataType::kFloat, {1, 1, 1}, bytes.first(4)}},
                                              {"R", {DataType::kFloat, {1, 1, 1}, bytes.last(4)}}};
    return store_.LoadInline({.name = "m", .engine = engine}, op, weights);
  }

  std::vector<float> values_;
  int slices_ = 0;
  absl::Status outcome_;
  ModelStore store_{{}};
  FakeEngine fake_{"fake", {.before_slice = [this] {
                     ++slices_;
                     names_ = store_.List().size();
                     return outcome_;
                   }}};
  FakeEngine picky_{"picky", {.supports = [](const CellSpec&) { return absl::UnimplementedError("no RNN here"); }}};
  size_t names_ = 99;
  ProgramCache programs_{1 << 20};
  CellularScheduler workers_{{.workers = 1}};
  Core core_{{}, {&fake_, &picky_}, &store_, &programs_, &workers_};
};

TEST_F(WarmUpTest, PacksAndRunsAStepBeforeTheNameMeansIt) {
  const absl::StatusOr<LoadedModel> loaded = Load(0.5);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(slices_, 1);
  EXPECT_EQ(names_, 0U);
  EXPECT_EQ(fake_.compiled, 1);
  EXPECT_THAT(loaded->warm_up, StartsWith("fake, "));
  EXPECT_GT(programs_.bytes_of(*loaded->model->distinct_cells()[0]), 0);
  EXPECT_EQ(core_.bytes_in_flight(), 0);
}

TEST_F(WarmUpTest, RefusesWhatNoEngineSupports) {
  const absl::Status refused = Load(0.5, "picky").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no RNN here"));
  EXPECT_THAT(store_.List(), IsEmpty());
}

TEST_F(WarmUpTest, AVersionThatFailsLeavesTheOneBefore) {
  ASSERT_TRUE(Load(0.5).ok());
  outcome_ = absl::InternalError("the step fails");
  EXPECT_EQ(Load(0.75).status(), outcome_);
  EXPECT_EQ(store_.Get("m", {})->version, 1);
  outcome_ = absl::OkStatus();
  EXPECT_EQ(Load(0.75)->version, 2);
}

TEST_F(WarmUpTest, AServerThatIsShortOfSomethingLoadsItAllTheSame) {
  float w = 1;
  for (const auto code :
       {absl::StatusCode::kResourceExhausted, absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kUnavailable}) {
    outcome_ = absl::Status(code, "not now");
    const absl::StatusOr<LoadedModel> loaded = Load(w += 1);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->warm_up, "none: not now");
  }
}

TEST_F(WarmUpTest, WithoutTheHookNothingRuns) {
  store_.SetWarmUp({});
  EXPECT_EQ(Load(0.5, "picky")->warm_up, "");
  EXPECT_EQ(slices_, 0);
}

}  // namespace
}  // namespace rnnserve
