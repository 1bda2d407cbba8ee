// SPDX-License-Identifier: Apache-2.0
// Models of several layers through the core: against their layers one by one, and what holds between layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <future>
#include <random>

#include "base/field_error.h"
#include "base/retry_delay.h"
#include "engine/reference/reference_engine.h"
#include "server/batching/cellular_scheduler.h"
#include "server/core/core.h"
#include "tests/server/core/fake_engine.h"
#include "tests/server/core/run_infer.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

// A tensor that owns its float32 elements.
struct Floats {
  std::string name;
  Shape shape;
  std::vector<float> values;

  NamedTensor View() const { return {name, {DataType::kFloat, shape, std::as_bytes(std::span(values))}}; }
};

class StackTest : public testing::Test {
 protected:
  Floats Random(std::string name, Shape shape) {
    std::uniform_real_distribution<float> any(-1, 1);
    Floats tensor{std::move(name), std::move(shape), {}};
    tensor.values.resize(static_cast<size_t>(NumElements(tensor.shape).value()));
    for (float& value : tensor.values) value = any(random_);
    return tensor;
  }

  void AddLayer(const std::string& op_type, int64_t input, int64_t hidden, int64_t directions) {
    const int64_t g = op_type == "LSTM" ? 4 : op_type == "GRU" ? 3 : 1;
    OperatorDef& op = ops_.emplace_back();
    op.op_type = op_type;
    op.version = 14;
    if (directions == 2) op.attributes["direction"] = std::string("bidirectional");
    weights_.push_back({Random("W", {directions, g * hidden, input}), Random("R", {directions, g * hidden, hidden}),
                        Random("B", {directions, 2 * g * hidden})});
    std::vector<NamedTensor>& views = views_.emplace_back();
    for (const Floats& tensor : weights_.back()) views.push_back(tensor.View());
  }

  void Load(bool batch_first = false) {
    std::vector<LayerView> layers;
    for (size_t k = 0; k < ops_.size(); ++k) layers.push_back({ops_[k], views_[k]});
    const absl::StatusOr<LoadedModel> loaded = store_.LoadStack({.name = "stack"}, layers, batch_first);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }

  InferCall Call(const std::deque<Floats>& inputs) {
    InferCall call;
    call.target = ModelName{"stack", {}};
    call.engine = "reference";
    for (const Floats& tensor : inputs) call.inputs.push_back(tensor.View());
    return call;
  }

  void SetLengths(InferCall& call, const std::vector<int32_t>& lengths) {
    call.inputs.push_back(
        {"sequence_lens",
         {DataType::kInt32, {static_cast<int64_t>(lengths.size())}, std::as_bytes(std::span(lengths))}});
  }

  absl::StatusOr<InferReply> Infer(const InferCall& call) {
    absl::StatusOr<InferRunPtr> accepted = core_.Accept(call);
    if (!accepted.ok()) return accepted.status();
    return Run(*std::move(accepted));
  }

  absl::StatusOr<InferReply> Run(InferRunPtr run) {
    std::promise<absl::StatusOr<InferReply>> reply;
    core_.Run(std::move(run), [&](absl::StatusOr<InferReply> result) { reply.set_value(std::move(result)); });
    return reply.get_future().get();
  }

  static Floats Output(const InferReply& reply, const std::string& name) {
    for (const OutputTensor& output : reply.outputs) {
      if (output.name != name) continue;
      Floats tensor{name, output.shape, std::vector<float>(output.bytes.size() / sizeof(float))};
      if (!tensor.values.empty()) std::memcpy(tensor.values.data(), output.bytes.data(), output.bytes.size());
      return tensor;
    }
    ADD_FAILURE() << "no output " << name;
    return {};
  }

  // [T, D, N, H] -> [T, N, D*H].
  static Floats Joined(const Floats& y) {
    const int64_t t = y.shape[0], d = y.shape[1], n = y.shape[2], h = y.shape[3];
    Floats x{"X", {t, n, d * h}, std::vector<float>(y.values.size())};
    for (int64_t i = 0; i < t * d * n; ++i) {
      const int64_t step = i / (d * n), direction = i / n % d, row = i % n;
      std::copy_n(&y.values[static_cast<size_t>(i * h)], h,
                  &x.values[static_cast<size_t>(((step * n + row) * d + direction) * h)]);
    }
    return x;
  }

  std::mt19937 random_{7};
  std::deque<OperatorDef> ops_;
  std::deque<std::vector<Floats>> weights_;
  std::deque<std::vector<NamedTensor>> views_;
  std::unique_ptr<Engine> reference_ = MakeReferenceEngine();
  // Blocks or fails slices as a test says.
  std::function<absl::Status()> hook_ = [] { return absl::OkStatus(); };
  FakeEngine fake_{"fake", {.before_slice = [this] { return hook_(); }}};
  ModelStore store_{{}};
  ProgramCache programs_{1 << 20};
  CellularScheduler workers_{{.workers = 2}};
  Core core_{{.max_bytes_in_flight = 1 << 20}, {reference_.get(), &fake_}, &store_, &programs_, &workers_};
};

// The oracle: each layer as an inline operator of its own, its Y rearranged by hand.
TEST_F(StackTest, GivesWhatItsLayersGiveOneByOne) {
  AddLayer("LSTM", 3, 4, 2);
  AddLayer("LSTM", 8, 4, 1);
  AddLayer("LSTM", 4, 4, 2);
  Load();
  const std::vector<int32_t> lengths = {5, 0, 2};
  const std::deque<Floats> inputs = {Random("X", {5, 3, 3}), Random("initial_h", {5, 3, 4}),
                                     Random("initial_c", {5, 3, 4})};
  InferCall call = Call(inputs);
  SetLengths(call, lengths);
  call.options.empty_row_state = EmptyRowState::kInitial;
  const absl::StatusOr<InferReply> whole = Infer(call);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->engine, "reference");

  Floats x = inputs[0], y;
  size_t from = 0;  // directions before this layer
  for (size_t k = 0; k < ops_.size(); ++k) {
    const size_t directions = static_cast<size_t>(weights_[k][0].shape[0]);
    const auto part = [&](const Floats& state) {
      Floats own{state.name, {static_cast<int64_t>(directions), 3, 4}, {}};
      const auto begin = state.values.begin() + static_cast<std::ptrdiff_t>(from * 12);
      own.values.assign(begin, begin + static_cast<std::ptrdiff_t>(directions * 12));
      return own;
    };
    InferCall one = Call({});
    one.target = ops_[k];
    one.options = call.options;
    one.inputs = views_[k];
    const Floats h = part(inputs[1]), c = part(inputs[2]);
    for (const Floats* tensor : {&std::as_const(x), &h, &c}) one.inputs.push_back(tensor->View());
    SetLengths(one, lengths);
    const absl::StatusOr<InferReply> layer = Infer(one);
    ASSERT_TRUE(layer.ok()) << layer.status();
    EXPECT_EQ(part(Output(*whole, "Y_h")).values, Output(*layer, "Y_h").values) << k;
    EXPECT_EQ(part(Output(*whole, "Y_c")).values, Output(*layer, "Y_c").values) << k;
    y = Output(*layer, "Y");
    x = Joined(y);
    from += directions;
  }
  EXPECT_EQ(Output(*whole, "Y").shape, y.shape);
  EXPECT_EQ(Output(*whole, "Y").values, y.values);
}

TEST_F(StackTest, PartsAndBatchFirstGiveTheSameNumbers) {
  AddLayer("GRU", 2, 3, 2);
  AddLayer("GRU", 6, 3, 2);
  Load();
  const std::deque<Floats> inputs = {Random("X", {4, 2, 2}), Random("initial_h", {4, 2, 3})};
  const absl::StatusOr<InferReply> whole = Infer(Call(inputs));
  ASSERT_TRUE(whole.ok()) << whole.status();

  std::deque<Floats> parts = {inputs[0], {"initial_h.0", {2, 2, 3}, {}}, {"initial_h.1", {2, 2, 3}, {}}};
  const auto middle = inputs[1].values.begin() + 12;
  parts[1].values.assign(inputs[1].values.begin(), middle);
  parts[2].values.assign(middle, inputs[1].values.end());
  InferCall call = Call(parts);
  call.outputs = {"Y_h.1", "Y_h.0"};
  const absl::StatusOr<InferReply> by_part = Infer(call);
  ASSERT_TRUE(by_part.ok()) << by_part.status();
  std::vector<float> joined = Output(*by_part, "Y_h.0").values;
  const std::vector<float> second = Output(*by_part, "Y_h.1").values;
  joined.insert(joined.end(), second.begin(), second.end());
  EXPECT_EQ(joined, Output(*whole, "Y_h").values);

  ASSERT_TRUE(store_.Unload("", UnloadOf::kOwn, "stack", {}).ok());
  Load(/*batch_first=*/true);
  Floats turned{"X", {2, 4, 2}, std::vector<float>(16)};
  for (size_t n = 0; n < 2; ++n) {
    for (size_t t = 0; t < 4; ++t) std::copy_n(&inputs[0].values[(t * 2 + n) * 2], 2, &turned.values[(n * 4 + t) * 2]);
  }
  const absl::StatusOr<InferReply> rows_first = Infer(Call({turned, inputs[1]}));
  ASSERT_TRUE(rows_first.ok()) << rows_first.status();
  EXPECT_EQ(Output(*rows_first, "Y_h").values, Output(*whole, "Y_h").values);
  const Floats want = Joined(Output(*whole, "Y")), got = Output(*rows_first, "Y");  // [T, N, D*H], [N, T, D, H]
  EXPECT_THAT(got.shape, ElementsAre(2, 4, 2, 3));
  for (size_t n = 0; n < 2; ++n) {
    for (size_t t = 0; t < 4; ++t) {
      for (size_t k = 0; k < 6; ++k) {
        EXPECT_EQ(got.values[(n * 4 + t) * 6 + k], want.values[(t * 2 + n) * 6 + k]) << n << " " << t << " " << k;
      }
    }
  }
  EXPECT_NE(rows_first->model->fingerprint(), whole->model->fingerprint());
}

TEST_F(StackTest, StatesGoInAndOutAsHandles) {
  AddLayer("LSTM", 2, 3, 1);
  AddLayer("GRU", 3, 2, 1);
  Load();
  const Floats x = Random("X", {6, 2, 2});
  InferCall call = Call({});
  call.inputs = {x.View()};
  const absl::StatusOr<InferReply> whole = Infer(call);
  ASSERT_TRUE(whole.ok()) << whole.status();

  RunStates states = {LayerStates(2), LayerStates(2)};  // zeros
  Floats y{"Y", {}, {}};
  for (size_t begin : {0u, 2u, 3u}) {
    const size_t end = begin == 0 ? 2 : begin == 2 ? 3 : 6;
    Floats chunk{"X", {static_cast<int64_t>(end - begin), 2, 2}, {}};
    chunk.values.assign(x.values.begin() + static_cast<std::ptrdiff_t>(begin * 4),
                        x.values.begin() + static_cast<std::ptrdiff_t>(end * 4));
    InferCall part = Call({});
    part.inputs = {chunk.View()};
    absl::StatusOr<InferRunPtr> accepted = core_.Accept(part);
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    const RunStates before = states;
    (*accepted)->call().states = states;
    const absl::StatusOr<InferReply> reply = Run(*std::move(accepted));
    ASSERT_TRUE(reply.ok()) << reply.status();
    states = reply->states;
    for (size_t layer = 0; layer < 2; ++layer) {
      for (size_t row = 0; row < 2; ++row) EXPECT_NE(states[layer][row], before[layer][row]) << "a fresh one";
    }
    const std::vector<float> own = Output(*reply, "Y").values;
    y.values.insert(y.values.end(), own.begin(), own.end());
  }
  EXPECT_EQ(y.values, Output(*whole, "Y").values);

  // Rows of length 0 keep their state, and are asked for like the others.
  InferCall idle = Call({});
  idle.inputs = {x.View()};
  const std::vector<int32_t> lengths = {0, 0};
  SetLengths(idle, lengths);
  absl::StatusOr<InferRunPtr> accepted = core_.Accept(idle);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  (*accepted)->call().states = states;
  const absl::StatusOr<InferReply> kept = Run(*std::move(accepted));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->states, states);
  for (const char* name : {"Y_h.0", "Y_c.0", "Y_h.1"}) {
    EXPECT_EQ(Output(*kept, name).values, Output(*whole, name).values) << name;
  }
}

// The fake engine sums X, so that the last layer of three gives sums of sums of sums.
class FakeStackTest : public StackTest {
 protected:
  void SetUp() override {
    for (int k = 0; k < 3; ++k) AddLayer("RNN", 1, 1, 1);
    Load();
  }
  InferCall FakeCall() {
    InferCall call = Call({});
    call.inputs = {x_.View()};
    call.engine = "fake";
    return call;
  }
  const Floats x_{"X", {3, 1, 1}, {1, 10, 100}};
};

TEST_F(FakeStackTest, LayersRunInOrder) {
  const absl::StatusOr<InferReply> reply = Infer(FakeCall());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(Output(*reply, "Y").values, ElementsAre(1, 13, 136));
  EXPECT_THAT(Output(*reply, "Y_h").values, ElementsAre(111, 123, 136));
  EXPECT_EQ(reply->engine, "fake");
}

TEST_F(FakeStackTest, ACancelledCallEndsBetweenLayers) {
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  int slices = 0;
  hook_ = [&] {
    ++slices;
    cancelled->store(true);
    return absl::OkStatus();
  };
  InferCall call = FakeCall();
  call.cancelled = cancelled;
  EXPECT_EQ(Infer(call).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(slices, 1);
}

// What was let in is not sent away half done because others have filled the queue meanwhile.
TEST_F(FakeStackTest, LaterLayersSayThatTheyGoOn) {
  struct Recorder final : Scheduler {
    explicit Recorder(Scheduler* to) : next(to) {}
    QueueLoad load() const override { return next->load(); }
    absl::Status Schedule(Submission&& submission) override {
      goes_on.push_back(submission.goes_on);
      return next->Schedule(std::move(submission));
    }
    Scheduler* next;
    std::vector<bool> goes_on;
  } recorder(&workers_);
  Core core({}, {&fake_}, &store_, &programs_, &recorder);
  std::promise<absl::StatusOr<InferReply>> reply;
  RunInfer(core, FakeCall(), [&](absl::StatusOr<InferReply> result) { reply.set_value(std::move(result)); });
  EXPECT_TRUE(reply.get_future().get().ok());
  EXPECT_THAT(recorder.goes_on, ElementsAre(false, true, true));
}

// Clients go by the reason: that the text names the layer takes nothing from it.
TEST_F(FakeStackTest, AnEngineOutOfServiceHasItsReasonInAnyLayer) {
  const FakeEngine failed("failed", {.supports = [](const CellSpec&) { return absl::UnavailableError("worn out"); }});
  Core core({}, {&failed}, &store_, &programs_, &workers_);
  InferCall call = FakeCall();
  call.engine = "failed";
  const absl::Status refused = core.Accept(call).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("layer 0: "));
  EXPECT_EQ(ReasonOf(refused), "ENGINE_OUT_OF_SERVICE");
  EXPECT_EQ(RetryDelayOf(refused), absl::InfiniteDuration());
}

TEST_F(FakeStackTest, AnEnginesErrorInALaterLayerEndsTheCall) {
  int slices = 0;
  hook_ = [&] { return ++slices == 2 ? absl::InternalError("worn out") : absl::OkStatus(); };
  EXPECT_THAT(std::string(Infer(FakeCall()).status().message()), HasSubstr("worn out"));
  EXPECT_EQ(slices, 2);
  hook_ = [] { return absl::OkStatus(); };
  EXPECT_TRUE(Infer(FakeCall()).ok()) << "memory and queue are free again";
}

TEST_F(FakeStackTest, WhatLiesBetweenLayersIsBounded) {
  AddLayer("RNN", 1, 64, 1);
  AddLayer("RNN", 64, 1, 1);
  ops_.erase(ops_.begin(), ops_.begin() + 3);
  views_.erase(views_.begin(), views_.begin() + 3);
  ASSERT_TRUE(store_.Unload("", UnloadOf::kOwn, "stack", {}).ok());
  Load();
  const Floats x{"X", {8192, 1, 1}, std::vector<float>(8192)};  // 2 MiB between the layers
  InferCall call = Call({});
  call.inputs = {x.View()};
  call.outputs = {"Y_h.1"};
  const absl::Status refused = Infer(call).status();
  EXPECT_EQ(FieldOf(refused), "inputs[X].shape") << refused;
  EXPECT_EQ(LimitOf(refused)->value, 2 << 20);
}

}  // namespace
}  // namespace rnnserve
