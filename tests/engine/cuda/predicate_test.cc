// SPDX-License-Identifier: Apache-2.0
// Each clause of the predicates from both sides: a cell just inside, and one that differs in that alone.
#include "engine/cuda/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace rnnserve::cuda {
namespace {

rnnserve_cell Default(int kind) {
  rnnserve_cell cell{};
  cell.input_size = cell.hidden_size = 1;
  cell.kind = kind;
  cell.data_type = RNNSERVE_FLOAT;
  cell.clip = __builtin_inf();
  cell.linear_before_reset = kind == RNNSERVE_GRU;
  for (rnnserve_activation& activation : cell.activations) activation.kind = RNNSERVE_TANH;
  if (kind != RNNSERVE_RNN) cell.activations[0].kind = RNNSERVE_SIGMOID;
  return cell;
}

rnnserve_cell With(rnnserve_cell cell, void (*change)(rnnserve_cell&)) {
  change(cell);
  return cell;
}
rnnserve_cell WithFunction(rnnserve_cell cell, size_t place, rnnserve_activation function) {
  cell.activations[place] = function;
  return cell;
}

struct Clause {
  std::string name;
  rnnserve_cell inside, outside;
  std::string reason;  // part of it
};

void PrintTo(const Clause& clause, std::ostream* out) { *out << clause.name; }

std::string ClauseName(const testing::TestParamInfo<Clause>& clause) { return clause.param.name; }

class EngineClause : public testing::TestWithParam<Clause> {};

TEST_P(EngineClause, HasTwoSides) {
  EXPECT_EQ(EngineRefusal(GetParam().inside), "");
  EXPECT_THAT(EngineRefusal(GetParam().outside), testing::HasSubstr(GetParam().reason));
}

std::vector<Clause> EngineClauses() {
  const rnnserve_cell lstm = Default(RNNSERVE_LSTM);
  const auto wide = [&](int64_t inputs, int64_t hidden) {
    rnnserve_cell cell = lstm;
    cell.input_size = inputs;
    cell.hidden_size = hidden;
    return cell;
  };
  const auto typed = [&](int type) {
    rnnserve_cell cell = lstm;
    cell.data_type = type;
    return cell;
  };
  constexpr int64_t kLargest = int64_t{1} << 24;
  return {
      {"deterministic", lstm, With(lstm, [](rnnserve_cell& c) { c.deterministic = 1; }), "deterministic"},
      {"kind", Default(RNNSERVE_RNN), With(lstm, [](rnnserve_cell& c) { c.kind = 3; }), "LSTM, GRU and RNN"},
      {"float16", typed(RNNSERVE_FLOAT16), typed(9), "runs float32, float16, bfloat16 and float64"},
      {"float64", typed(RNNSERVE_DOUBLE), typed(12), "runs float32"},
      {"bfloat16", typed(RNNSERVE_BFLOAT16), typed(17), "runs float32"},
      {"least_widths", wide(0, 1), wide(0, 0), "hidden_size 1.."},
      {"negative_input", wide(0, 1), wide(-1, 1), "input_size 0.."},
      {"largest_widths", wide(kLargest, kLargest), wide(kLargest + 1, 1), "input_size 0..16777216"},
      {"largest_hidden", wide(1, kLargest), wide(1, kLargest + 1), "hidden_size 1..16777216"},
      {"functions", WithFunction(lstm, 2, {0, 0, RNNSERVE_SOFTPLUS, 0}), WithFunction(lstm, 2, {0, 0, 11, 0}),
       "doesn't know activation 11"},
  };
}

INSTANTIATE_TEST_SUITE_P(Clauses, EngineClause, testing::ValuesIn(EngineClauses()), ClauseName);

class CudnnClause : public testing::TestWithParam<Clause> {};

TEST_P(CudnnClause, HasTwoSides) {
  EXPECT_EQ(CudnnRefusal(GetParam().inside), "");
  EXPECT_THAT(CudnnRefusal(GetParam().outside), testing::HasSubstr(GetParam().reason));
  EXPECT_EQ(EngineRefusal(GetParam().outside), "") << "the general path runs it";
}

std::vector<Clause> CudnnClauses() {
  const rnnserve_cell lstm = Default(RNNSERVE_LSTM), gru = Default(RNNSERVE_GRU), rnn = Default(RNNSERVE_RNN);
  constexpr rnnserve_activation kRelu{0, 0, RNNSERVE_RELU, 0}, kSigmoid{0, 0, RNNSERVE_SIGMOID, 0};
  constexpr rnnserve_activation kHardSigmoid{0.2, 0.5, RNNSERVE_HARD_SIGMOID, 0};
  constexpr rnnserve_activation kTanhByScale{1, 1, RNNSERVE_SCALED_TANH, 0};
  const std::string lstm_functions = "Sigmoid, Tanh, Tanh only", gru_functions = "Sigmoid, Tanh only";
  return {
      {"no_features", lstm, With(lstm, [](rnnserve_cell& c) { c.input_size = 0; }), "input_size is 0"},
      {"lstm_clip", lstm, With(lstm, [](rnnserve_cell& c) { c.clip = 1e300; }), "clip"},
      {"gru_clip", gru, With(gru, [](rnnserve_cell& c) { c.clip = 1; }), "clip"},
      {"rnn_clip", rnn, With(rnn, [](rnnserve_cell& c) { c.clip = 1; }), "clip"},
      {"peephole", lstm, With(lstm, [](rnnserve_cell& c) { c.has_peephole = 1; }), "peepholes"},
      {"input_forget", lstm, With(lstm, [](rnnserve_cell& c) { c.input_forget = 1; }), "input_forget"},
      {"lstm_f", lstm, WithFunction(lstm, 0, kHardSigmoid), lstm_functions},
      {"lstm_g", WithFunction(lstm, 1, kTanhByScale), WithFunction(lstm, 1, kRelu), lstm_functions},
      {"lstm_h", WithFunction(lstm, 2, kTanhByScale), WithFunction(lstm, 2, kSigmoid), lstm_functions},
      {"scaled_tanh", WithFunction(rnn, 0, kTanhByScale), WithFunction(rnn, 0, {1, 2, RNNSERVE_SCALED_TANH, 0}),
       "Tanh and Relu only"},
      {"before_reset", gru, With(gru, [](rnnserve_cell& c) { c.linear_before_reset = 0; }), "linear_before_reset = 1"},
      {"gru_f", gru, WithFunction(gru, 0, kHardSigmoid), gru_functions},
      {"gru_g", gru, WithFunction(gru, 1, kRelu), gru_functions},
      {"rnn_relu", WithFunction(rnn, 0, kRelu), WithFunction(rnn, 0, {0.01, 0, RNNSERVE_LEAKY_RELU, 0}),
       "Tanh and Relu only"},
      {"rnn_tanh", rnn, WithFunction(rnn, 0, kSigmoid), "Tanh and Relu only"},
  };
}

INSTANTIATE_TEST_SUITE_P(Clauses, CudnnClause, testing::ValuesIn(CudnnClauses()), ClauseName);

}  // namespace
}  // namespace rnnserve::cuda
