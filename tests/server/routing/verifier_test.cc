// SPDX-License-Identifier: Apache-2.0
#include "server/routing/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>

#include "engine/reference/reference_engine.h"
#include "server/batching/cellular_scheduler.h"
#include "server/core/core.h"
#include "tests/server/core/fake_engine.h"
#include "tests/server/core/run_infer.h"

namespace rnnserve {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

InferReply Reply(const std::vector<float>& values) {
  OutputTensor y;
  y.name = "Y";
  y.shape = {static_cast<int64_t>(values.size())};
  y.bytes = Elements(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(y.bytes.data(), values.data(), y.bytes.size());
  InferReply reply;
  reply.engine = "first";
  reply.outputs.push_back(std::move(y));
  return reply;
}

double Between(const std::vector<float>& a, const std::vector<float>& b) {
  return LargestDifference(Reply(a), Reply(b));
}

TEST(LargestDifference, IsRelativeAboveOneAndAbsoluteBelow) {
  EXPECT_EQ(Between({}, {}), 0);
  EXPECT_EQ(Between({1, 2, 3}, {1, 2, 3}), 0);
  EXPECT_EQ(Between({0.25f, 4}, {0.5f, 8}), 0.5);
  EXPECT_EQ(Between({0.25f, -4}, {0.75f, 4}), 2);
  std::vector<float> many(2000, 1.0f), others = many;
  others[1999] = 1.5f;
  EXPECT_DOUBLE_EQ(Between(many, others), 0.5 / 1.5);
}

TEST(LargestDifference, TreatsWhatIsNoNumberAsItIs) {
  EXPECT_EQ(Between({kNan, kInfinity, -kInfinity}, {kNan, kInfinity, -kInfinity}), 0);
  EXPECT_EQ(Between({kNan}, {1}), kInfinity);
  EXPECT_EQ(Between({1}, {kInfinity}), kInfinity);
  EXPECT_EQ(Between({-kInfinity}, {kInfinity}), kInfinity);
  EXPECT_EQ(Between({1, 2}, {1}), kInfinity);
}

TEST(Verifier, SamplesItsShareEvenly) {
  const auto sampled = [](double share) {
    Verifier verifier(share);
    std::string picks;
    for (int call = 0; call < 8; ++call) picks += verifier.Sample() ? '1' : '0';
    return picks;
  };
  EXPECT_EQ(sampled(0), "00000000");
  EXPECT_EQ(sampled(0.25), "00010001");
  EXPECT_EQ(sampled(1), "11111111");
}

double Value(const Metrics& metrics, const std::string& name, const std::vector<std::string>& labels = {}) {
  for (const MetricReading& family : metrics.Collect()) {
    for (const MetricSample& sample : family.samples) {
      if (family.name == name && sample.labels == labels) return sample.value;
    }
  }
  ADD_FAILURE() << "no metric " << name;
  return -1;
}

TEST(Verifier, CountsAndKeepsTheLargest) {
  Metrics metrics;
  Verifier verifier(1, &metrics);
  verifier.Compare("m", Reply({1}), Reply({1}));
  verifier.Compare("m", Reply({1}), Reply({1.5f}));
  verifier.Compare("m", Reply({1}), Reply({1.00001f}));
  verifier.Compare("m", Reply({1}), absl::InternalError("broken"));
  EXPECT_EQ(Value(metrics, "rnnserve_verified_total", {"agreed"}), 2);
  EXPECT_EQ(Value(metrics, "rnnserve_verified_total", {"differed"}), 1);
  EXPECT_EQ(Value(metrics, "rnnserve_verified_total", {"failed"}), 1);
  EXPECT_NEAR(Value(metrics, "rnnserve_verify_largest_difference"), 0.5 / 1.5, 1e-12);
}

// RNN with I = H = 1 and W = R = 0.5; the fake engine sums instead.
class VerifyTest : public testing::Test {
 protected:
  InferCall Call(const std::string& engine) const {
    OperatorDef op;
    op.op_type = "RNN";
    op.version = 14;
    InferCall call;
    call.target = op;
    call.engine = engine;
    const TensorView one = {DataType::kFloat, {1, 1, 1}, std::as_bytes(std::span(half_))};
    call.inputs = {{"W", one}, {"R", one}, {"X", one}};
    return call;
  }
  absl::StatusOr<InferReply> Infer(const std::string& engine) {
    std::promise<absl::StatusOr<InferReply>> reply;
    RunInfer(core_, Call(engine), [&](absl::StatusOr<InferReply> result) { reply.set_value(std::move(result)); });
    return reply.get_future().get();
  }

  const std::array<float, 1> half_ = {0.5f};
  absl::Status fault_ = absl::OkStatus();
  FakeEngine fake_{"fake", {.before_slice = [this] { return fault_; }}};
  std::unique_ptr<Engine> reference_ = MakeReferenceEngine();
  ModelStore store_{{}};
  ProgramCache programs_{1 << 20};
  CellularScheduler scheduler_{{.workers = 2}};
  Metrics metrics_;
  Verifier verifier_{1, &metrics_};
  Core core_{{.verifier = &verifier_}, {&fake_, reference_.get()}, &store_, &programs_, &scheduler_};
};

TEST_F(VerifyTest, TheSecondEngineRunsToo) {
  const absl::StatusOr<InferReply> reply = Infer("reference");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->engine, "reference");
  EXPECT_EQ(fake_.compiled, 1);
  // tanh(0.25) against 0.5.
  EXPECT_NEAR(verifier_.largest(), 0.2551, 1e-4);
  EXPECT_EQ(Value(metrics_, "rnnserve_verified_total", {"differed"}), 1);
}

// The fake engine's state is the sum of its inputs; a chunk starts from the session's state on both engines.
TEST_F(VerifyTest, ChunksOfSessionsRunTwiceFromTheSameState) {
  InferCall call = Call("fake");
  absl::StatusOr<PinnedModel> pinned = core_.Pin(call, {.rows = 1, .steps = 1});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  const auto shared = std::make_shared<const PinnedModel>(*std::move(pinned));
  RunStates states(1, LayerStates(1));
  for (int k = 0; k < 2; ++k) {
    absl::StatusOr<RunPlan> plan = core_.Plan(*shared, {&call.inputs.back(), 1}, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    absl::StatusOr<InferRunPtr> accepted = core_.AcceptPinned(shared, *std::move(plan), {});
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    (*accepted)->call().states = states;
    std::promise<absl::StatusOr<InferReply>> told;
    core_.Run(*std::move(accepted), [&](absl::StatusOr<InferReply> reply) { told.set_value(std::move(reply)); });
    absl::StatusOr<InferReply> reply = told.get_future().get();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->engine, "fake");
    states = std::move(reply->states);
  }
  EXPECT_EQ(Value(metrics_, "rnnserve_verified_total", {"differed"}), 2);
  // The fake's 1 against the formula from its 0.5: tanh(0.25 + 0.25).
  EXPECT_NEAR(verifier_.largest(), 1 - std::tanh(0.5), 1e-6);
}

TEST_F(VerifyTest, AFaultOfTheSecondEngineIsNotTheCallers) {
  fault_ = absl::InternalError("out of order");
  EXPECT_TRUE(Infer("reference").ok());
  EXPECT_EQ(Value(metrics_, "rnnserve_verified_total", {"failed"}), 1);
  EXPECT_EQ(Infer("fake").status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace rnnserve
