// SPDX-License-Identifier: Apache-2.0
// Every refusal of a request's tensors and outputs: field path and text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/field_error.h"
#include "tests/engine/op/example_operator.h"
#include "tests/engine/op/refusal.h"

namespace rnnserve::tensor_refusal {
namespace {

constexpr int64_t kTwo31 = int64_t{1} << 31;
constexpr int64_t kTwo62 = int64_t{1} << 62;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// A shape that the bytes do not follow.
std::function<void(Example&)> Shaped(const std::string& name, Shape shape) {
  return [=](Example& example) { example.Input(name).shape = shape; };
}

// A whole tensor of that shape.
std::function<void(Example&)> Filled(const std::string& name, Shape shape, DataType type = DataType::kFloat) {
  return [=](Example& example) { example.PutFilled(name, shape, type); };
}

std::function<void(Example&)> Missing(const std::string& name) {
  return [=](Example& example) { example.Drop(name); };
}

std::function<void(Example&)> Lengths(const std::string& name, DataType type, std::vector<double> values) {
  return [=](Example& example) { example.Put(MakeTensor(name, type, {static_cast<int64_t>(values.size())}, values)); };
}

const std::vector<Refusal>& Refusals() {
  static const auto* const refusals = new std::vector<Refusal>{
      // Names.
      {"LSTM", 14, Missing("X"), "inputs[X]", "input X is missing; LSTM-14 requires it"},
      {"LSTM", 14, Missing("W"), "inputs[W]", "input W is missing"},
      {"LSTM", 14, Missing("R"), "inputs[R]", "input R is missing"},
      {"LSTM", 14, Filled("x", {1}), "inputs[x]",
       "there is no input \"x\"; LSTM-14 takes X, W, R, B, sequence_lens, initial_h, initial_c, P"},
      {"LSTM", 14, Filled("", {1}), "inputs[8].name", "input 8 has no name"},
      {"LSTM", 14, [](Example& e) { e.inputs.push_back(e.Input("B")); }, "inputs[B]", "input B is given twice"},
      {"GRU", 14, [](Example& e) { e.inputs.push_back(e.Input("X")); }, "inputs[X]", "given twice"},
      {"GRU", 14, Filled("initial_c", {1, 2, 2}), "inputs[initial_c]", "GRU-14 takes X, W, R, B, sequence_lens, initial_h"},
      {"RNN", 14, Filled("P", {1, 6}), "inputs[P]", "there is no input \"P\""},
      {"LSTM", 14, Filled(std::string(5000, 'n'), {1}), "inputs[" + std::string(64, 'n') + "...]", "there is no input"},
      {"LSTMSequence", 5, Filled("P", {1, 6}), "inputs[P]", "there is no input \"P\""},
      {"LSTMSequence", 5, Filled("sequence_lens", {2}), "inputs[sequence_lens]", "takes X, W, R, B, sequence_lengths"},
      {"LSTMSequence", 5, Missing("B"), "inputs[B]", "input B is missing; LSTMSequence-5 requires it"},
      {"LSTMSequence", 5, Missing("sequence_lengths"), "inputs[sequence_lengths]", "is missing"},
      {"LSTMSequence", 1, Missing("initial_hidden_state"), "inputs[initial_hidden_state]", "is missing"},
      {"LSTMSequence", 5, Missing("initial_cell_state"), "inputs[initial_cell_state]", "is missing"},
      {"GRUSequence", 5, Missing("initial_hidden_state"), "inputs[initial_hidden_state]", "is missing"},
      // Types.
      {"LSTM", 14, Filled("W", {1, 8, 3}, DataType::kInt32), "inputs[W].data_type", "W is int32; LSTM-14 takes floating"},
      {"LSTM", 14, Filled("R", {1, 8, 2}, DataType::kDouble), "inputs[R].data_type",
       "R is float64, but W is float32: all floating inputs of one request share one type"},
      {"LSTM", 14, Filled("B", {1, 16}, DataType::kFloat16), "inputs[B].data_type", "B is float16, but W is float32"},
      {"LSTM", 14, Filled("P", {1, 6}, DataType::kInt64), "inputs[P].data_type", "P is int64"},
      {"LSTM", 14, Filled("X", {4, 2, 3}, DataType::kInt32), "inputs[X].data_type", "X is int32, but W is float32"},
      {"LSTM", 14, Filled("initial_h", {1, 2, 2}, DataType::kDouble), "inputs[initial_h].data_type", "float64"},
      {"LSTM", 14, Filled("initial_c", {1, 2, 2}, DataType::kBFloat16), "inputs[initial_c].data_type", "bfloat16"},
      {"LSTM", 14, Filled("W", {1, 8, 3}, DataType::kBFloat16), "inputs[W].data_type",
       "W is bfloat16, which LSTM-14 does not take: name version 22"},
      {"GRU", 1, Filled("W", {1, 6, 3}, DataType::kBFloat16), "inputs[W].data_type", "name version 22"},
      {"LSTM", 14, [](Example& e) { e.Input("W").type = static_cast<DataType>(99); }, "inputs[W].data_type", "W is unknown"},
      {"LSTM", 14, Lengths("sequence_lens", DataType::kInt64, {4, 1}), "inputs[sequence_lens].data_type",
       "sequence_lens is int64; LSTM-14 takes int32"},
      {"GRU", 14, Filled("sequence_lens", {2}), "inputs[sequence_lens].data_type", "is float32; GRU-14 takes int32"},
      {"GRUSequence", 5, Filled("sequence_lengths", {2}), "inputs[sequence_lengths].data_type", "takes int32 or int64"},
      // Ranks and shapes of weights.
      {"LSTM", 14, Filled("W", {8, 3}), "inputs[W].shape",
       "W has shape [8, 3] (2 axes, not 3); LSTM-14 expects [D = 1, 4*H = 8, I]"},
      {"LSTM", 14, Filled("W", {}), "inputs[W].shape", "(0 axes, not 3)"},
      {"LSTM", 14, Shaped("W", Shape(100000, 1)), "inputs[W].shape", "[1, 1, 1, 1, 1, 1, 1, 1, ...] (100000 axes, not 3)"},
      {"LSTM", 14, Filled("W", {1, 6, 3}), "inputs[W].shape", "W has shape [1, 6, 3]; LSTM-14 expects [D = 1, 4*H = 8, I]"},
      {"LSTM", 14, Filled("W", {2, 8, 3}), "inputs[W].shape", "with D = 1 for direction forward or reverse"},
      {"LSTM", 14, Filled("R", {2, 8, 2}), "inputs[R].shape", "with D = 1"},
      {"LSTM", 14, Filled("R", {1, 8, 3}), "inputs[R].shape", "R has shape [1, 8, 3]; LSTM-14 expects [D = 1, 4*H = 12, H]"},
      {"LSTM", 14, Filled("R", {1, 8}), "inputs[R].shape", "(2 axes, not 3)"},
      {"LSTM", 14, Filled("R", {}), "inputs[R].shape", "R has shape []"},
      {"LSTM", 14, Filled("R", {1, 0, 0}), "inputs[R].shape", "the hidden size would be 0; expected at least 1"},
      {"GRU", 14, Filled("R", {1, 8, 2}), "inputs[R].shape", "GRU-14 expects [D = 1, 3*H = 6, H]"},
      {"RNN", 14, Filled("R", {1, 8, 2}), "inputs[R].shape", "RNN-14 expects [D = 1, H = 2, H]"},
      {"LSTM", 14, Filled("B", {1, 8}), "inputs[B].shape", "B has shape [1, 8]; LSTM-14 expects [D = 1, 8*H = 16]"},
      {"GRU", 14, Filled("B", {1, 6}), "inputs[B].shape", "6*H = 12"},
      {"RNN", 14, Filled("B", {1, 2}), "inputs[B].shape", "2*H = 4"},
      {"LSTM", 14, Filled("B", {16}), "inputs[B].shape", "(1 axis, not 2)"},
      {"LSTM", 14, Filled("P", {1, 8}), "inputs[P].shape", "P has shape [1, 8]; LSTM-14 expects [D = 1, 3*H = 6]"},
      {"LSTM", 14, [](Example& e) { e.op.attributes["direction"] = std::string("bidirectional"); }, "inputs[R].shape",
       "expects [D = 2, 4*H = 8, H], with D = 2 for direction bidirectional"},
      {"LSTMSequence", 5, Filled("B", {1, 16}), "inputs[B].shape", "LSTMSequence-5 expects [D = 1, 4*H = 8]"},
      {"GRUSequence", 5, Filled("B", {1, 8}), "inputs[B].shape", "[D = 1, 3*H = 6]"},
      {"GRUSequence", 5, [](Example& e) { e.op.attributes["linear_before_reset"] = int64_t{1}; }, "inputs[B].shape",
       "[D = 1, 4*H = 8]"},
      {"RNNSequence", 5, Filled("B", {1, 4}), "inputs[B].shape", "[D = 1, H = 2]"},
      // Sizes that overflow or lie.
      {"LSTM", 14, Shaped("R", {1, 8, kTwo62}), "inputs[R].shape", "more than 2^63 - 1 bytes"},
      {"LSTM", 14, Shaped("R", {kTwo31, kTwo31, 2}), "inputs[R].shape", "more than 2^63 - 1 bytes"},
      {"LSTM", 14, Shaped("R", {kMax, kMax, kMax}), "inputs[R].shape", "more than 2^63 - 1 bytes"},
      {"LSTM", 14, Shaped("R", {0, 0, kMax}), "inputs[R].shape", "more than 2^63 - 1 bytes"},
      {"LSTM", 14, Shaped("R", {0, 0, kTwo62 / 4}), "inputs[R].shape", "expects [D = 1, 4*H"},
      {"LSTM", 14, Shaped("R", {1, 4 * kTwo31, kTwo31}), "inputs[R].shape", "more than 2^63 - 1 bytes"},
      {"RNN", 14, Shaped("R", {1, kTwo31 / 2, kTwo31 / 2}), "inputs[R]", "R holds 16 bytes, but shape"},
      {"LSTM", 14, Shaped("R", {1, -8, 2}), "inputs[R].shape", "every axis must be at least 0"},
      {"LSTM", 14, Shaped("R", {1, 8, -2}), "inputs[R].shape", "every axis must be at least 0"},
      {"LSTM", 14, Shaped("R", {1, 8, std::numeric_limits<int64_t>::min()}), "inputs[R].shape", "at least 0"},
      {"LSTM", 14, Shaped("W", {1, 8, kTwo62}), "inputs[W].shape", "more than 2^63 - 1 bytes"},
      {"LSTM", 14, Shaped("W", {1, 8, kTwo31}), "inputs[W]", "W holds 96 bytes, but shape [1, 8, 2147483648] of float32 takes 68719476736"},
      {"LSTM", 14, Shaped("X", {kTwo31, kTwo31, 3}), "inputs[X].shape", "more than 2^63 - 1 bytes"},
      {"LSTM", 14, Shaped("X", {kTwo31, 1, 3}), "inputs[X]", "X holds 96 bytes"},
      {"LSTM", 14, Shaped("X", {-1, 2, 3}), "inputs[X].shape", "at least 0"},
      {"LSTM", 14, Shaped("X", {0, kMax, 3}), "inputs[X].shape", "more than 2^63 - 1 bytes"},
      {"LSTM", 14, [](Example& e) { e.Input("X") = {"X", DataType::kFloat, {0, kTwo31, 3}, {}}; }, "inputs[X].shape",
       "without any element; such a request may have at most 1048576 rows times steps"},
      {"LSTM", 14, [](Example& e) { e.Input("X").bytes.pop_back(); }, "inputs[X]", "X holds 95 bytes, but shape [4, 2, 3]"},
      {"LSTM", 14, [](Example& e) { e.Input("X").bytes.push_back({}); }, "inputs[X]", "X holds 97 bytes"},
      {"LSTM", 14, [](Example& e) { e.Input("W").bytes.clear(); }, "inputs[W]", "W holds 0 bytes"},
      {"LSTM", 14, [](Example& e) { e.Input("R").bytes.pop_back(); }, "inputs[R]", "R holds 63 bytes"},
      {"LSTM", 14, [](Example& e) { e.Input("B").bytes.pop_back(); }, "inputs[B]", "B holds 63 bytes"},
      {"LSTM", 14, [](Example& e) { e.Input("P").bytes.pop_back(); }, "inputs[P]", "P holds 23 bytes"},
      {"LSTM", 14, [](Example& e) { e.Input("initial_c").bytes.pop_back(); }, "inputs[initial_c]", "holds 15 bytes"},
      {"LSTM", 14, [](Example& e) { e.Input("sequence_lens").bytes.pop_back(); }, "inputs[sequence_lens]", "holds 7 bytes"},
      // Data shapes.
      {"LSTM", 14, Filled("X", {4, 2, 5}), "inputs[X].shape",
       "X has shape [4, 2, 5]; LSTM-14 expects [T, N, I = 3], where I is the last axis of W"},
      {"LSTM", 14, Filled("X", {4, 6}), "inputs[X].shape", "(2 axes, not 3)"},
      {"LSTMSequence", 5, Filled("X", {2, 4, 5}), "inputs[X].shape", "LSTMSequence-5 expects [N, T, I = 3]"},
      {"LSTM", 14, Filled("initial_h", {2, 1, 2}), "inputs[initial_h].shape", "LSTM-14 expects [D = 1, N = 2, H = 2]"},
      {"LSTM", 14, Filled("initial_c", {1, 2, 3}), "inputs[initial_c].shape", "[D = 1, N = 2, H = 2]"},
      {"LSTM", 14, Filled("initial_h", {1, 3, 2}), "inputs[initial_h].shape", "N = 2"},
      {"LSTM", 14,
       [](Example& e) {
         e.op.attributes["layout"] = int64_t{1};
         e.PutFilled("X", {2, 4, 3});
       },
       "inputs[initial_h].shape", "LSTM-14 expects [N = 2, D = 1, H = 2]"},
      {"GRUSequence", 5, Filled("initial_hidden_state", {1, 2, 2}), "inputs[initial_hidden_state].shape", "[N = 2, D = 1, H = 2]"},
      // Lengths.
      {"LSTM", 14, Lengths("sequence_lens", DataType::kInt32, {4}), "inputs[sequence_lens].shape",
       "LSTM-14 expects [N = 2], one length for each row of X"},
      {"LSTM", 14, Lengths("sequence_lens", DataType::kInt32, {4, 4, 4}), "inputs[sequence_lens].shape", "[N = 2]"},
      {"LSTM", 14, [](Example& e) { e.Put(MakeTensor("sequence_lens", DataType::kInt32, {}, {4})); },
       "inputs[sequence_lens].shape", "(0 axes, not 1)"},
      {"LSTM", 14, Lengths("sequence_lens", DataType::kInt32, {4, -1}), "inputs[sequence_lens]",
       "sequence_lens of row 1 is -1; expected 0 to 4 (T, the steps of X)"},
      {"LSTM", 14, Lengths("sequence_lens", DataType::kInt32, {5, 1}), "inputs[sequence_lens]",
       "sequence_lens of row 0 is 5; expected 0 to 4"},
      {"GRU", 7, Lengths("sequence_lens", DataType::kInt32, {-2147483648.0, 1}), "inputs[sequence_lens]", "-2147483648"},
      {"RNNSequence", 5, Lengths("sequence_lengths", DataType::kInt64, {0, 4294967297.0}), "inputs[sequence_lengths]",
       "sequence_lengths of row 1 is 4294967297"},
      {"RNNSequence", 5, Lengths("sequence_lengths", DataType::kInt32, {0, -4}), "inputs[sequence_lengths]", "row 1 is -4"},
      // Outputs.
      {"GRU", 14, [](Example& e) { e.wanted = {"Y_c"}; }, "outputs[Y_c]", "there is no output \"Y_c\"; GRU-14 has Y, Y_h"},
      {"LSTM", 14, [](Example& e) { e.wanted = {"Y", ""}; }, "outputs[]", "there is no output \"\"; LSTM-14 has Y, Y_h, Y_c"},
      {"LSTM", 14, [](Example& e) { e.wanted = {"Y", "Y_h", "Y"}; }, "outputs[Y]", "output Y is asked for twice"},
      {"LSTMSequence", 5, [](Example& e) { e.wanted = {"Y_h"}; }, "outputs[Y_h]", "LSTMSequence-5 has Y, Ho, Co"},
  };
  return *refusals;
}

TEST(TensorRefusalTest, EveryRowIsRefusedWithItsFieldAndText) {
  ExpectRefusals(Refusals(), [](const Example& example) { return Plan(example).status(); });
}

// H so large that multiples of it overflow, with no bytes behind it.
TEST(TensorRefusalTest, HugeHiddenSizesAreRefusedWithoutArithmeticAccidents) {
  for (int64_t h : {kTwo31, kTwo62 / 4, kTwo62 / 2, kTwo62, kMax / 4, kMax}) {
    for (const Shape& shape : {Shape{1, 4, h}, Shape{0, 4, h}, Shape{1, 0, h}, Shape{1, h, h}, Shape{h, h, h}}) {
      Example example = OnnxExample("LSTM", 14);
      example.Input("R") = {"R", DataType::kFloat, shape, {}};
      EXPECT_FALSE(Plan(example).ok()) << ShapeString(shape);
    }
  }
}

TEST(TensorRefusalTest, NextToAModelWeightsAndUnknownNamesAreRefused) {
  Example example = OnnxExample("LSTM", 14);
  const OpSpec spec = Resolve(example).value();
  absl::Status status = CheckDataNames(spec, Views(example.inputs));
  EXPECT_EQ(FieldOf(status), "inputs[W]");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("W is a weight, which the model holds already"));
  for (const char* weight : {"W", "R", "B", "P"}) example.Drop(weight);
  EXPECT_TRUE(CheckDataNames(spec, Views(example.inputs)).ok());
  example.inputs.push_back(example.Input("X"));
  EXPECT_EQ(FieldOf(CheckDataNames(spec, Views(example.inputs))), "inputs[X]");
  example.inputs.back().name = "initial_hidden_state";
  EXPECT_EQ(FieldOf(CheckDataNames(spec, Views(example.inputs))), "inputs[initial_hidden_state]");
}

TEST(TensorRefusalTest, Bfloat16ComesWithVersion22AndIsAnOpenVinoType) {
  for (const char* op_type : {"LSTM", "GRU", "RNN"}) {
    Example example = OnnxExample(op_type, 22);
    for (OwnedTensor& input : example.inputs) {
      if (IsFloating(input.type)) input = FilledTensor(input.name, DataType::kBFloat16, input.shape, 0.25);
    }
    EXPECT_TRUE(Plan(example).ok()) << Plan(example).status();
  }
  Example example = OpenVinoExample("LSTMSequence", 1);
  for (OwnedTensor& input : example.inputs) {
    if (IsFloating(input.type)) input = FilledTensor(input.name, DataType::kBFloat16, input.shape, 0.25);
  }
  EXPECT_TRUE(Plan(example).ok()) << Plan(example).status();
}

}  // namespace
}  // namespace rnnserve::tensor_refusal
