// SPDX-License-Identifier: Apache-2.0
#include "server/core/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <thread>

#include "base/field_error.h"
#include "engine/reference/reference_engine.h"
#include "server/admission/byte_budget.h"
#include "server/batching/cellular_scheduler.h"
#include "tests/server/core/fake_engine.h"
#include "tests/server/core/run_infer.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::SizeIs;

// Float32 data with names, and a call that views it.
class CallBuilder {
 public:
  // RNN-14 with I = H = 1, W = 0.5, R = 0.25.
  CallBuilder() {
    OperatorDef op;
    op.op_type = "RNN";
    op.version = 14;
    op.attributes["hidden_size"] = int64_t{1};
    call_.target = op;
    Add("W", {1, 1, 1}, {0.5});
    Add("R", {1, 1, 1}, {0.25});
  }

  CallBuilder& Target(decltype(InferCall::target) target) {
    call_.target = std::move(target);
    return *this;
  }
  CallBuilder& Attribute(const std::string& name, AttributeValue value) {
    std::get<OperatorDef>(call_.target).attributes[name] = std::move(value);
    return *this;
  }
  CallBuilder& Add(const std::string& name, Shape shape, std::vector<float> values) {
    auto& kept = *floats_.emplace_back(std::make_unique<std::vector<float>>(std::move(values)));
    return AddView(name, DataType::kFloat, std::move(shape), std::as_bytes(std::span(kept)));
  }
  CallBuilder& AddLengths(std::vector<int32_t> values) {
    auto& kept = *ints_.emplace_back(std::make_unique<std::vector<int32_t>>(std::move(values)));
    return AddView("sequence_lens", DataType::kInt32, {static_cast<int64_t>(kept.size())},
                   std::as_bytes(std::span(kept)));
  }
  CallBuilder& Without(const std::string& name) {
    std::erase_if(call_.inputs, [&](const NamedTensor& input) { return input.name == name; });
    return *this;
  }
  InferCall& call() { return call_; }

 private:
  CallBuilder& AddView(const std::string& name, DataType type, Shape shape, std::span<const std::byte> data) {
    call_.inputs.push_back({name, {type, std::move(shape), data}});
    return *this;
  }

  std::vector<std::unique_ptr<std::vector<float>>> floats_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> ints_;
  InferCall call_;
};

std::vector<float> Values(const OutputTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

class CoreTest : public testing::Test {
 protected:
  absl::StatusOr<InferReply> Infer(InferCall call) { return InferWith(core_, std::move(call)); }

  static absl::StatusOr<InferReply> InferWith(Core& core, InferCall call) {
    std::promise<absl::StatusOr<InferReply>> promise;
    std::future<absl::StatusOr<InferReply>> reply = promise.get_future();
    RunInfer(core, std::move(call), [promise = std::move(promise)](absl::StatusOr<InferReply> result) mutable {
      promise.set_value(std::move(result));
    });
    return reply.get();
  }

  FakeEngine picky_{"picky", {.supports = [](const CellSpec& cell) {
                      return cell.linear_before_reset || cell.kind != CellKind::kRnn
                                 ? absl::OkStatus()
                                 : absl::UnimplementedError("no RNN here");
                    }}};
  FakeEngine fake_{"fake"};
  std::unique_ptr<Engine> reference_ = MakeReferenceEngine();
  ModelStore store_{{}};
  ProgramCache programs_{1 << 20};
  CellularScheduler workers_{{.workers = 2}};
  Core core_{{}, {&picky_, &fake_, reference_.get()}, &store_, &programs_, &workers_};
};

TEST_F(CoreTest, ComputesThroughTheReferenceEngine) {
  CallBuilder builder;
  builder.Add("X", {2, 1, 1}, {1, -2}).call().engine = "reference";
  const absl::StatusOr<InferReply> reply = Infer(builder.call());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->engine, "reference");
  EXPECT_THAT(reply->model->fingerprint(), SizeIs(64));
  EXPECT_EQ(reply->largest_batch, 1);
  ASSERT_THAT(reply->outputs, SizeIs(2));
  EXPECT_EQ(reply->outputs[0].name, "Y");
  EXPECT_THAT(reply->outputs[0].shape, ElementsAre(2, 1, 1, 1));
  const float first = std::tanh(0.5f);
  const float second = std::tanh(-1.0f + 0.25f * first);
  EXPECT_THAT(Values(reply->outputs[0]), ElementsAre(FloatNear(first, 1e-6f), FloatNear(second, 1e-6f)));
  EXPECT_THAT(Values(reply->outputs[1]), ElementsAre(FloatNear(second, 1e-6f)));
}

TEST_F(CoreTest, KeepsRowsLengthsDirectionsAndInitialStatesApart) {
  CallBuilder builder;
  builder.Without("W").Without("R").Attribute("direction", std::string("bidirectional"));
  builder.Add("W", {2, 1, 1}, {1, 1}).Add("R", {2, 1, 1}, {1, 1});
  builder.Add("X", {3, 2, 1}, {1, 10, 2, 20, 4, 40});  // rows 1, 2, 4 and 10, 20, 40
  builder.AddLengths({2, 3}).Add("initial_h", {2, 2, 1}, {100, 200, 300, 400});
  builder.call().engine = "fake";  // sums
  const absl::StatusOr<InferReply> reply = Infer(builder.call());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->largest_batch, 4);  // equal weights in both directions are one cell
  // Y [T, D, N, H].
  EXPECT_THAT(Values(reply->outputs[0]), ElementsAre(101, 210, 303, 470, 103, 230, 302, 460, 0, 270, 0, 440));
  EXPECT_THAT(Values(reply->outputs[1]), ElementsAre(103, 270, 303, 470));
}

TEST_F(CoreTest, AnswersEmptyRequestsWithoutAnEngine) {
  CallBuilder builder;
  builder.Add("X", {3, 0, 1}, {}).call().engine = "fake";
  const absl::StatusOr<InferReply> reply = Infer(builder.call());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->engine, "");
  EXPECT_THAT(reply->outputs[0].shape, ElementsAre(3, 1, 0, 1));
  EXPECT_TRUE(reply->outputs[0].bytes.empty());
  EXPECT_EQ(fake_.compiled, 0);

  CallBuilder lengths;
  lengths.Add("X", {1, 2, 1}, {5, 6}).AddLengths({0, 0}).Add("initial_h", {1, 2, 1}, {7, 8});
  lengths.call().options.empty_row_state = EmptyRowState::kInitial;
  const absl::StatusOr<InferReply> kept = Infer(lengths.call());
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->engine, "");
  EXPECT_THAT(Values(kept->outputs[0]), ElementsAre(0, 0));
  EXPECT_THAT(Values(kept->outputs[1]), ElementsAre(7, 8));
}

TEST_F(CoreTest, AutoTakesTheFirstEngineThatCan) {
  CallBuilder builder;
  builder.Add("X", {1, 1, 1}, {3});
  for (const char* name : {"", "auto"}) {
    builder.call().engine = name;
    const absl::StatusOr<InferReply> reply = Infer(builder.call());
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->engine, "fake");
  }
  EXPECT_EQ(fake_.compiled, 1);
}

TEST_F(CoreTest, ANamedEngineRefusesWithItsReason) {
  CallBuilder builder;
  builder.Add("X", {1, 1, 1}, {3}).call().engine = "picky";
  const absl::Status refused = Infer(builder.call()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("engine \"picky\": no RNN here"));

  builder.call().engine = "abacus";
  const absl::Status unknown = Infer(builder.call()).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(unknown), "engine");
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("name one of picky, fake, reference"));
}

TEST_F(CoreTest, RunsModelsWithTheirOptionsUnlessTheCallHasItsOwn) {
  CallBuilder weights;
  OptionalOptions options;
  options.empty_row_state = EmptyRowState::kInitial;
  ASSERT_TRUE(store_
                  .LoadInline({.name = "tiny", .options = options, .engine = "reference"},
                              std::get<OperatorDef>(weights.call().target), weights.call().inputs)
                  .ok());
  CallBuilder builder;
  builder.Target(ModelName{"tiny", {}}).Without("W").Without("R");
  builder.Add("X", {1, 2, 1}, {5, 6}).AddLengths({0, 1}).Add("initial_h", {1, 2, 1}, {7, 8});
  builder.call().outputs = {"Y_h"};
  const absl::StatusOr<InferReply> by_model = Infer(builder.call());
  ASSERT_TRUE(by_model.ok()) << by_model.status();
  EXPECT_EQ(by_model->engine, "reference");
  EXPECT_EQ(Values(by_model->outputs[0])[0], 7);
  builder.call().engine = "auto";
  const absl::StatusOr<InferReply> chosen = Infer(builder.call());
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->engine, "fake") << "auto overrides the model's engine";

  builder.call().options.empty_row_state = EmptyRowState::kZeros;
  builder.call().engine = "fake";
  const absl::StatusOr<InferReply> by_call = Infer(builder.call());
  ASSERT_TRUE(by_call.ok()) << by_call.status();
  EXPECT_THAT(Values(by_call->outputs[0]), ElementsAre(0, 14));

  builder.Target(ModelFingerprint{by_call->model->fingerprint()});
  EXPECT_TRUE(Infer(builder.call()).ok());
  builder.Add("W", {1, 1, 1}, {0.5});
  EXPECT_EQ(FieldOf(Infer(builder.call()).status()), "inputs[W]");
}

TEST_F(CoreTest, RefusesWhatIsTooLargeFromShapesAlone) {
  Core small({.max_reply_bytes = 16, .max_sequences = 4}, {&fake_}, &store_, &programs_, &workers_);
  CallBuilder builder;
  builder.Add("X", {4, 1, 1}, {1, 2, 3, 4});
  const absl::Status reply = InferWith(small, builder.call()).status();
  EXPECT_EQ(FieldOf(reply), "outputs");
  EXPECT_EQ(ReasonOf(reply), "LIMIT_EXCEEDED");
  EXPECT_EQ(LimitOf(reply)->value, 20);
  EXPECT_THAT(std::string(reply.message()), HasSubstr("leave Y out of `outputs`"));
  builder.call().outputs = {"Y"};
  EXPECT_TRUE(InferWith(small, builder.call()).ok());

  builder.Without("X").Add("X", {1, 5, 1}, {1, 2, 3, 4, 5});
  const absl::Status rows = InferWith(small, builder.call()).status();
  EXPECT_EQ(FieldOf(rows), "inputs[X].shape");
  EXPECT_EQ(LimitOf(rows)->limit, 4);
}

TEST_F(CoreTest, BoundsTheMemoryOfAllRequestsTogether) {
  std::promise<void> entered, open;
  std::shared_future<void> is_open = open.get_future().share();
  FakeEngine gated("gated", {.before_slice = [&] {
                     entered.set_value();
                     is_open.wait();
                     return absl::OkStatus();
                   }});
  Core small({.max_bytes_in_flight = 1024}, {&gated, &fake_}, &store_, &programs_, &workers_);
  CallBuilder first, second;
  first.Add("X", {1, 1, 1}, {1}).call().engine = "gated";
  second.Add("X", {200, 1, 1}, std::vector<float>(200)).call().engine = "fake";
  std::promise<absl::StatusOr<InferReply>> waiting;
  RunInfer(small, first.call(), [&](absl::StatusOr<InferReply> reply) { waiting.set_value(std::move(reply)); });
  entered.get_future().wait();
  const absl::Status full = InferWith(small, second.call()).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  open.set_value();
  EXPECT_TRUE(waiting.get_future().get().ok());
  EXPECT_TRUE(InferWith(small, second.call()).ok());
}

TEST_F(CoreTest, PassesOnWhatTheSchedulerSays) {
  CallBuilder builder;
  builder.Add("X", {1, 1, 1}, {1}).call().deadline = absl::InfinitePast();
  EXPECT_EQ(Infer(builder.call()).status().code(), absl::StatusCode::kDeadlineExceeded);
  builder.call().deadline = absl::InfiniteFuture();
  builder.call().cancelled = std::make_shared<std::atomic<bool>>(true);
  EXPECT_EQ(Infer(builder.call()).status().code(), absl::StatusCode::kCancelled);
  workers_.Abort();
  EXPECT_EQ(Infer(builder.call()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CoreTest, ServesManyThreadsAtOnce) {
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int call = 0; call < 50; ++call) {
        CallBuilder builder;
        const float value = static_cast<float>(thread * 100 + call);
        builder.Add("X", {2, 1, 1}, {value, 1}).call().engine = "fake";
        const absl::StatusOr<InferReply> reply = Infer(builder.call());
        if (reply.ok() && Values(reply->outputs[1]) == std::vector<float>{value + 1}) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 200);
  EXPECT_EQ(fake_.compiled, 1);
}

TEST(ByteBudget, GrantsUntilFullAndTakesBack) {
  ByteBudget budget(100);
  {
    const auto first = budget.Take(1, 60);
    EXPECT_TRUE(first);
    EXPECT_FALSE(budget.Take(2, 41));
    const auto second = budget.Take(2, 40);
    EXPECT_TRUE(second);
    EXPECT_EQ(budget.used(), 100);
  }
  EXPECT_EQ(budget.used(), 0);
  const auto large = budget.Take(1, 1000);
  EXPECT_TRUE(large);
  EXPECT_FALSE(budget.Take(2, 1));
}

TEST(ByteBudget, KeepsAnEighthForOtherCallers) {
  ByteBudget budget(800);
  auto first = budget.Take(1, 700);
  ASSERT_TRUE(first);
  EXPECT_FALSE(budget.Take(1, 1));
  EXPECT_TRUE(budget.Take(2, 100));
  first->ShrinkTo(10);
  EXPECT_EQ(budget.held(1), 10);
  EXPECT_TRUE(budget.Take(1, 690));
}

}  // namespace
}  // namespace rnnserve
