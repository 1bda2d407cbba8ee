// SPDX-License-Identifier: Apache-2.0
// A sequence cut anywhere is one sequence: chunks of many sessions at once against Infer over the whole. Bit for bit on
// `reference` and where `deterministic` is set, within section 11 of the operators' text otherwise.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/support/compare.h"
#include "tests/engine/support/naive_operator.h"
#include "tests/engine/support/run_operator.h"
#include "tests/server/sessions/execution/live_sessions.h"

namespace rnnserve {
namespace {

double ToleranceOf(DataType type) {
  return type == DataType::kDouble ? 1e-12 : type == DataType::kFloat ? 1e-5 : type == DataType::kFloat16 ? 2e-3 : 1e-2;
}

// Indices [begin, end) of an axis.
OwnedTensor Part(const OwnedTensor& tensor, size_t axis, int64_t begin, int64_t end) {
  OwnedTensor part{tensor.name, tensor.type, tensor.shape, {}};
  part.shape[axis] = end - begin;
  size_t inner = ByteSize(tensor.type), outer = 1;
  for (size_t k = 0; k < tensor.shape.size(); ++k) {
    if (k < axis) outer *= static_cast<size_t>(tensor.shape[k]);
    if (k > axis) inner *= static_cast<size_t>(tensor.shape[k]);
  }
  const size_t row = inner * static_cast<size_t>(tensor.shape[axis]);
  for (size_t k = 0; k < outer; ++k) {
    const auto first = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(k * row);
    part.bytes.insert(part.bytes.end(), first + static_cast<std::ptrdiff_t>(inner) * begin,
                      first + static_cast<std::ptrdiff_t>(inner) * end);
  }
  return part;
}

OwnedTensor Owned(const OutputTensor& tensor) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(tensor.bytes));
  return {tensor.name, tensor.type, tensor.shape, {bytes.begin(), bytes.end()}};
}

testing::AssertionResult Same(const OwnedTensor& got, const OwnedTensor& want, double tolerance) {
  return tolerance == 0 ? TensorsIdentical(got, want) : TensorsNear(got, want, tolerance);
}

OwnedTensor OutputOf(const ApplyReply& answer, const std::string& name) {
  for (const OutputTensor& output : answer.result->outputs) {
    if (output.name == name) return Owned(output);
  }
  ADD_FAILURE() << "no output " << name;
  return {};
}

// Where X and Y have their steps.
struct Axes {
  size_t x, y;
};
Axes AxesOf(const RandomOperator& op) {
  if (op.openvino) return {1, 2};
  return op.layout == 1 ? Axes{1, 1} : Axes{0, 0};
}

struct Cut {
  const char* engine;
  bool deterministic;
};

class SessionSequences : public testing::TestWithParam<Cut> {
 protected:
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  const Engine& engine() {
    for (const Engine* engine : live_.engines()) {
      if (engine->name() == GetParam().engine) return *engine;
    }
    ADD_FAILURE();
    return *live_.engines()[0];
  }
  OptionalOptions Options() {
    OptionalOptions options;
    options.deterministic = GetParam().deterministic;
    return options;
  }
  double Tolerance(DataType type) {
    return GetParam().deterministic || engine().name() == "reference" ? 0 : ToleranceOf(type);
  }
  // 0, then cuts in any distance, then `steps`.
  std::vector<int64_t> Cuts(int64_t steps) {
    std::vector<int64_t> cuts = {0, steps};
    for (int64_t k = Draw(0, 6); k > 0; --k) cuts.push_back(Draw(0, steps));
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

  LiveSessions live_;
  std::mt19937_64 random_{20251121};
};

// One operator with one session, all of its chunks in flight.
struct Running {
  RandomOperator op;
  std::string session;
  std::vector<int64_t> cuts;
  InferReply whole;
};

TEST_P(SessionSequences, CutAnywhereAnOperatorIsOneRun) {
  const DataType types[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBFloat16};
  const EngineOptions engine_options{.allow_reduced_precision = false, .deterministic = GetParam().deterministic};
  std::vector<Running> running;
  OperationPipeline pipeline(live_.sessions());
  for (int k = 0; k < 48; ++k) {
    const DataType type = types[k % 4];
    if (engine().name() == "onednn" && type != DataType::kFloat) continue;
    const auto accepts = [&](const RandomOperator& op) {
      return SupportsOperator(engine(), op.op, op.inputs, engine_options).ok();
    };
    const bool plain = engine().name() == "onednn";  // it computes few functions
    const RandomOperator op =
        MakeTameOperator(random_, type, {.direction = Direction::kForward, .default_functions = plain}, accepts);
    SCOPED_TRACE(op.Describe());
    InferCall infer;
    infer.target = op.op;
    infer.inputs = Views(op.inputs);
    infer.options = Options();
    infer.options.empty_row_state = EmptyRowState::kInitial;
    infer.engine = GetParam().engine;
    absl::StatusOr<InferReply> whole = live_.Infer(infer);
    ASSERT_TRUE(whole.ok()) << whole.status();

    OpenCall open;
    open.target = op.op;
    open.options = Options();
    open.engine = GetParam().engine;
    open.rows = op.rows;
    open.max_in_flight = 64;
    std::vector<OwnedTensor> state;
    for (const OwnedTensor& input : op.inputs) {
      if (IsWeightName(input.name)) open.weights.push_back(input.View());
      if (input.name.starts_with("initial_")) {  // the state has the compute type
        state.push_back(MakeTensor(input.name, ComputeType(type), input.shape, input.Values()));
      }
    }
    // A state comes whole; where the operator leaves one of an LSTM's out, it is zeros.
    if (state.size() == 1 && op.op.op_type == "LSTM") {
      const std::string missing = state[0].name == "initial_h" ? "initial_c" : "initial_h";
      state.push_back(
          MakeTensor(missing, state[0].type, state[0].shape, std::vector<double>(state[0].Values().size())));
    }
    if (!state.empty()) open.state = Views(state);
    const absl::StatusOr<std::string> session = live_.Open(std::move(open));
    ASSERT_TRUE(session.ok()) << session.status();
    running.push_back({op, *session, Cuts(op.steps), *std::move(whole)});
    running.back().whole.memory.reset();
  }
  for (const Running& one : running) {
    for (size_t k = 1; k < one.cuts.size(); ++k) {
      const int64_t begin = one.cuts[k - 1], end = one.cuts[k];
      std::vector<OwnedTensor> inputs = {Part(*one.op.Find("X"), AxesOf(one.op).x, begin, end)};
      if (const OwnedTensor* lengths = one.op.Find(InputName(one.op, "sequence_lens"))) {
        std::vector<double> part;
        for (const int64_t length : one.op.lengths) {
          part.push_back(static_cast<double>(std::clamp<int64_t>(length - begin, 0, end - begin)));
        }
        inputs.push_back(MakeTensor(lengths->name, lengths->type, lengths->shape, part));
      }
      pipeline.Send(one.session, k, std::move(inputs));
    }
  }
  const std::vector<ApplyReply> answers = pipeline.Answers();
  size_t at = 0;
  for (const Running& one : running) {
    SCOPED_TRACE(one.op.Describe());
    const double tolerance = Tolerance(one.op.type);
    for (size_t k = 1; k < one.cuts.size(); ++k, ++at) {
      const ApplyReply& answer = answers[at];
      ASSERT_TRUE(answer.status.ok()) << answer.status;
      for (const OutputTensor& output : one.whole.outputs) {
        const OwnedTensor want = Owned(output);
        const OwnedTensor got = OutputOf(answer, output.name);
        if (output.name == "Y") {
          EXPECT_TRUE(Same(got, Part(want, AxesOf(one.op).y, one.cuts[k - 1], one.cuts[k]), tolerance));
        } else if (k + 1 == one.cuts.size()) {
          EXPECT_TRUE(Same(got, want, tolerance)) << output.name;
        }
      }
    }
  }
  EXPECT_EQ(at, answers.size());
}

// Several layers, their states of one commit.
TEST_P(SessionSequences, CutAnywhereAStackIsOneRun) {
  const DataType types[] = {DataType::kFloat, DataType::kDouble};
  for (int round = 0; round < 12; ++round) {
    const DataType type = engine().name() == "onednn" ? DataType::kFloat : types[round % 2];
    const int64_t layers = Draw(2, 4), hidden = Draw(1, 33), steps = Draw(1, 20), rows = Draw(1, 4);
    const bool batch_first = Draw(0, 1) == 1;
    int64_t width = Draw(1, 20);
    const Shape x_shape = batch_first ? Shape{rows, steps, width} : Shape{steps, rows, width};
    const auto reals = [&](const std::string& name, const Shape& shape, double bound) {
      std::vector<double> values(static_cast<size_t>(NumElements(shape).value()));
      for (double& value : values) value = std::uniform_real_distribution<double>(-bound, bound)(random_);
      return MakeTensor(name, type, shape, values);
    };
    std::deque<OperatorDef> ops;
    std::deque<std::vector<OwnedTensor>> weights;
    std::deque<std::vector<NamedTensor>> views;
    const char* kinds[] = {"LSTM", "GRU", "RNN"};
    const int64_t gates[] = {4, 3, 1};
    const auto kind = static_cast<size_t>(Draw(0, 2));  // of all layers: some stacks have their states as one tensor
    for (int64_t layer = 0; layer < layers; ++layer) {
      OperatorDef& op = ops.emplace_back();
      op.op_type = kinds[kind];
      op.version = 14;
      if (kind == 1) op.attributes["linear_before_reset"] = int64_t{1};
      const int64_t g = gates[kind] * hidden;
      weights.push_back({reals("W", {1, g, width}, 0.3), reals("R", {1, g, hidden}, 0.3), reals("B", {1, 2 * g}, 0.3)});
      views.push_back(Views(weights.back()));
      width = hidden;
    }
    std::vector<LayerView> layer_views;
    for (size_t k = 0; k < ops.size(); ++k) layer_views.push_back({ops[k], views[k]});
    const std::string name = "stack" + std::to_string(round);
    ASSERT_TRUE(live_.models().LoadStack({.name = name}, layer_views, batch_first).ok());

    const OwnedTensor x = reals("X", x_shape, 1);
    InferCall infer;
    infer.target = ModelName{name, {}};
    infer.inputs = {x.View()};
    infer.options = Options();
    infer.engine = GetParam().engine;
    const absl::StatusOr<InferReply> whole = live_.Infer(infer);
    ASSERT_TRUE(whole.ok()) << whole.status();
    OpenCall open;
    open.target = infer.target;
    open.options = Options();
    open.engine = GetParam().engine;
    open.rows = rows;
    open.max_in_flight = 64;
    const absl::StatusOr<std::string> session = live_.Open(std::move(open));
    ASSERT_TRUE(session.ok()) << session.status();
    OperationPipeline pipeline(live_.sessions());
    const std::vector<int64_t> cuts = Cuts(steps);
    const size_t axis = batch_first ? 1 : 0;
    for (size_t k = 1; k < cuts.size(); ++k) pipeline.Send(*session, k, {Part(x, axis, cuts[k - 1], cuts[k])});
    const std::vector<ApplyReply> answers = pipeline.Answers();
    for (size_t k = 1; k < cuts.size(); ++k) {
      ASSERT_TRUE(answers[k - 1].status.ok()) << answers[k - 1].status;
      for (const OutputTensor& output : whole->outputs) {
        const OwnedTensor got = OutputOf(answers[k - 1], output.name);
        if (output.name == "Y") {
          EXPECT_TRUE(Same(got, Part(Owned(output), axis, cuts[k - 1], cuts[k]), Tolerance(type)));
        } else if (k + 1 == cuts.size()) {
          EXPECT_TRUE(Same(got, Owned(output), Tolerance(type))) << output.name;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, SessionSequences,
                         testing::Values(Cut{"reference", false}, Cut{"cpu", true}, Cut{"cpu", false},
                                         Cut{"onednn", false}),
                         [](const auto& one) {
                           return std::string(one.param.engine) + (one.param.deterministic ? "_deterministic" : "");
                         });

}  // namespace
}  // namespace rnnserve
