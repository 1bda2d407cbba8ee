// SPDX-License-Identifier: Apache-2.0
// Each clause of the predicate from both sides: a cell that is just inside, and one that differs in that alone.
#include "engine/onednn/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/onednn/onednn_engine.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::onednn {
namespace {

constexpr Activation kTanh{ActivationKind::kTanh}, kSigmoid{ActivationKind::kSigmoid}, kRelu{ActivationKind::kRelu};

struct Request {
  CellSpec cell;
  EngineOptions options = {};
  bool cpu_multiplies_bfloat16 = true;
};

struct Clause {
  std::string name;
  Request inside, outside;
  std::string reason;  // part of it
};

void PrintTo(const Clause& clause, std::ostream* out) { *out << clause.name; }

Request Lstm() { return {cpu::DefaultSpec(CellKind::kLstm, DataType::kFloat, 1, 1)}; }
Request Gru() { return {cpu::DefaultSpec(CellKind::kGru, DataType::kFloat, 1, 1)}; }
Request Rnn() { return {cpu::DefaultSpec(CellKind::kRnn, DataType::kFloat, 1, 1)}; }

Request ReducedBFloat16(Request request) {
  request.cell.data_type = DataType::kBFloat16;
  request.options.allow_reduced_precision = true;
  return request;
}

Request With(Request request, void (*change)(Request&)) {
  change(request);
  return request;
}

Request WithFunction(Request request, size_t place, Activation f) {
  request.cell.activations[place] = f;
  return request;
}

std::vector<Clause> Clauses() {
  const Request bfloat16 = ReducedBFloat16(Lstm());
  const auto with_type = [](DataType type) {
    Request request = ReducedBFloat16(Lstm());
    request.cell.data_type = type;
    return request;
  };
  const auto peephole = [](Request& r) { r.cell.has_peephole = true; };
  const auto lbr = [](Request& r) { r.cell.linear_before_reset = true; };
  const std::string lstm_functions = "activations of an LSTM must be Sigmoid, Tanh, Tanh";
  const std::string gru_functions = "activations of a GRU must be Sigmoid, Tanh";
  const std::string rnn_functions = "activations of an RNN must be Tanh, Sigmoid, Relu or LeakyRelu";
  return {
      {"float16", bfloat16, with_type(DataType::kFloat16), "tensors are float16"},
      {"float64", Lstm(), with_type(DataType::kDouble), "tensors are float64"},
      {"bfloat16_exactly", bfloat16, With(bfloat16, [](Request& r) { r.options.allow_reduced_precision = false; }),
       "allow reduced precision"},
      {"bfloat16_instructions", bfloat16, With(bfloat16, [](Request& r) { r.cpu_multiplies_bfloat16 = false; }),
       "this CPU lacks AVX512_BF16"},
      {"bfloat16_peephole", With(Lstm(), peephole), With(bfloat16, peephole), "P is given"},
      {"deterministic", Lstm(), With(Lstm(), [](Request& r) { r.options.deterministic = true; }), "deterministic"},
      {"narrow_weights", Lstm(), With(Lstm(), [](Request& r) { r.options.weights = WeightType::kInt8; }),
       "weight_type is INT8, and it keeps weights as given only"},
      {"no_features", Lstm(), With(Lstm(), [](Request& r) { r.cell.input_size = 0; }), "X has no features"},
      {"clip", Lstm(), With(Lstm(), [](Request& r) { r.cell.clip = 1e30; }), "clip is set"},
      {"input_forget", Lstm(), With(Lstm(), [](Request& r) { r.cell.input_forget = true; }), "input_forget is 1"},
      {"lstm_f", Lstm(), WithFunction(Lstm(), 0, {ActivationKind::kHardSigmoid, 0.2, 0.5}), lstm_functions},
      {"lstm_g", Lstm(), WithFunction(Lstm(), 1, kRelu), lstm_functions},
      {"lstm_h", Lstm(), WithFunction(Lstm(), 2, {ActivationKind::kScaledTanh, 1, 1}), lstm_functions},
      {"gru_f", Gru(), WithFunction(Gru(), 0, kTanh), gru_functions},
      {"gru_g", With(Gru(), lbr), WithFunction(With(Gru(), lbr), 1, kSigmoid), gru_functions},
      {"rnn_tanh", Rnn(), WithFunction(Rnn(), 0, {ActivationKind::kScaledTanh, 1, 1}), rnn_functions},
      {"rnn_sigmoid", WithFunction(Rnn(), 0, kSigmoid),
       WithFunction(Rnn(), 0, {ActivationKind::kHardSigmoid, 0.2, 0.5}), rnn_functions},
      {"rnn_relu", WithFunction(Rnn(), 0, kRelu), WithFunction(Rnn(), 0, {ActivationKind::kThresholdedRelu, 0}),
       rnn_functions},
      {"rnn_leaky_relu", WithFunction(Rnn(), 0, {ActivationKind::kLeakyRelu, 0.01}),
       WithFunction(Rnn(), 0, {ActivationKind::kElu, 0.01}), rnn_functions},
  };
}

class PredicateTest : public testing::TestWithParam<Clause> {};

TEST_P(PredicateTest, TakesTheCellInside) {
  const auto& [cell, options, bfloat16] = GetParam().inside;
  EXPECT_TRUE(CheckCell(cell, options, bfloat16).ok()) << CheckCell(cell, options, bfloat16);
}

TEST_P(PredicateTest, RefusesTheCellOutsideWithTheReason) {
  const auto& [cell, options, bfloat16] = GetParam().outside;
  const absl::Status refused = CheckCell(cell, options, bfloat16);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(GetParam().reason));
}

// The engine stands by its word: what is inside compiles, what is outside does not.
TEST_P(PredicateTest, HoldsForCompileToo) {
  const std::unique_ptr<Engine> engine = MakeOneDnnEngine();
  for (const Request& request : {GetParam().inside, GetParam().outside}) {
    const absl::Status can = engine->Supports(request.cell, request.options);
    const absl::Status compiled = engine->Compile(cpu::RandomCell(request.cell, 1), request.options).status();
    EXPECT_EQ(compiled, can);
  }
}

INSTANTIATE_TEST_SUITE_P(Clauses, PredicateTest, testing::ValuesIn(Clauses()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rnnserve::onednn
