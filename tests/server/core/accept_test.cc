// SPDX-License-Identifier: Apache-2.0
// What a call costs before and after it runs: which calls keep a thread, and how long a reply's memory counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>

#include "server/batching/cellular_scheduler.h"
#include "server/core/core.h"
#include "tests/server/core/fake_engine.h"
#include "tests/server/core/run_infer.h"

namespace rnnserve {
namespace {

class AcceptTest : public testing::Test {
 protected:
  // One row of `steps` steps through an RNN with I = H = 1, by name.
  InferCall Call(int64_t steps) {
    x_.resize(static_cast<size_t>(steps), 1.0f);
    InferCall call;
    call.target = ModelName{"tiny", {}};
    call.inputs = {{"X", {DataType::kFloat, {steps, 1, 1}, std::as_bytes(std::span(x_))}}};
    return call;
  }

  absl::StatusOr<InferReply> Infer(const InferCall& call) {
    std::promise<absl::StatusOr<InferReply>> reply;
    RunInfer(core_, call, [&](absl::StatusOr<InferReply> result) { reply.set_value(std::move(result)); });
    return reply.get_future().get();
  }

  void SetUp() override {
    const std::array<float, 1> weight = {0.5f};
    OperatorDef op;
    op.op_type = "RNN";
    op.version = 14;
    const TensorView one = {DataType::kFloat, {1, 1, 1}, std::as_bytes(std::span(weight))};
    const std::vector<NamedTensor> weights = {{"W", one}, {"R", one}};
    ASSERT_TRUE(store_.LoadInline({.name = "tiny"}, op, weights).ok());
  }

  std::vector<float> x_;
  FakeEngine fake_{"fake"};
  ModelStore store_{{}};
  ProgramCache programs_{1 << 20};
  CellularScheduler workers_{{.workers = 1}};
  Core core_{{.max_bytes_in_flight = 5 << 20}, {&fake_}, &store_, &programs_, &workers_};
};

TEST_F(AcceptTest, SaysThatPackingTakesLong) {
  EXPECT_TRUE((*core_.Accept(Call(1)))->takes_long());
  EXPECT_EQ(fake_.compiled, 0);
  ASSERT_TRUE(Infer(Call(1)).ok());
  EXPECT_FALSE((*core_.Accept(Call(1)))->takes_long());
}

TEST_F(AcceptTest, SaysThatLargeRepliesTakeLong) {
  ASSERT_TRUE(Infer(Call(1)).ok());
  EXPECT_TRUE((*core_.Accept(Call(1 << 20)))->takes_long());
}

TEST_F(AcceptTest, CountsTheReplyUntilItIsGone) {
  {
    const absl::StatusOr<InferReply> reply = Infer(Call(1 << 20));  // 4 MiB of Y
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(Infer(Call(1 << 20)).status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(Infer(Call(1)).ok());
  }
  EXPECT_TRUE(Infer(Call(1 << 20)).ok());
}

}  // namespace
}  // namespace rnnserve
