// SPDX-License-Identifier: Apache-2.0
// The decisions of recurrent-operators.md, section 14, on networks worked out by hand: one unit, identity functions
// (Affine with alpha 1, beta 0), numbers that every step of the arithmetic keeps exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/reference/reference_engine.h"
#include "tests/engine/support/run_operator.h"

namespace rnnserve::golden_onnx {
namespace {

using Doubles = std::vector<double>;
using Names = std::vector<std::string>;
using testing::ElementsAre;

constexpr DataType kDouble = DataType::kDouble;

struct Network {
  OperatorDef op;
  std::vector<OwnedTensor> inputs;
  RunSettings settings;

  Network& Set(const std::string& name, AttributeValue value) {
    op.attributes[name] = std::move(value);
    return *this;
  }
  Network& Put(const std::string& name, Shape shape, const Doubles& values, DataType type = kDouble) {
    std::erase_if(inputs, [&](const OwnedTensor& input) { return input.name == name; });
    inputs.push_back(MakeTensor(name, type, std::move(shape), values));
    return *this;
  }
  Network& Lengths(const Doubles& values) {
    return Put("sequence_lens", {static_cast<int64_t>(values.size())}, values, DataType::kInt32);
  }
  Doubles Output(const std::string& name) const {
    const std::unique_ptr<Engine> engine = MakeReferenceEngine();
    const Names wanted = {name};
    const absl::StatusOr<OutputMap> outputs = RunOperator(*engine, op, inputs, wanted, settings);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? outputs->at(name).Values() : Doubles{};
  }
};

// One step: x = 2, h = 1, c = 3. Rows i, o, f, c.
//   i = 1*2 + 5*1 + 0.5 + 1 + P 2*3 = 14.5      f = 3*2 + 7*1 + 1.5 + 1 + P 4*3 = 27.5
//   n = 4*2 + 8*1 + 2 + 1 = 19                   C = 27.5*3 + 14.5*19 = 358
//   o = 2*2 + 6*1 + 1 + 1 + P 3*358 = 1086       s = 1086*358 = 388788
Network Lstm(int64_t version) {
  Network network;
  network.op = {"", "LSTM", version, {}, {}};
  network.Set("activations", Names{"Affine", "Affine", "Affine"});
  network.Put("X", {1, 1, 1}, {2}).Put("W", {1, 4, 1}, {1, 2, 3, 4}).Put("R", {1, 4, 1}, {5, 6, 7, 8});
  network.Put("B", {1, 8}, {0.5, 1, 1.5, 2, 1, 1, 1, 1}).Put("P", {1, 3}, {2, 3, 4});
  network.Put("initial_h", {1, 1, 1}, {1}).Put("initial_c", {1, 1, 1}, {3});
  return network;
}

TEST(GoldenTest, LstmOfEveryVersion) {
  for (int64_t version : {1, 7, 14, 22}) {
    EXPECT_THAT(Lstm(version).Output("Y"), ElementsAre(388788)) << version;
    EXPECT_THAT(Lstm(version).Output("Y_h"), ElementsAre(388788));
    EXPECT_THAT(Lstm(version).Output("Y_c"), ElementsAre(358));
  }
}

TEST(GoldenTest, LstmWithoutOptionalInputs) {
  Network network = Lstm(14);
  std::erase_if(network.inputs, [](const OwnedTensor& input) { return input.name == "P"; });
  // i = 8.5, f = 15.5, n = 19, C = 46.5 + 161.5, o = 12
  EXPECT_THAT(network.Output("Y_c"), ElementsAre(208));
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(2496));
  std::erase_if(network.inputs,
                [](const OwnedTensor& input) { return input.name == "B" || input.name.starts_with("initial"); });
  // i = 2, n = 8, o = 4
  EXPECT_THAT(network.Output("Y_c"), ElementsAre(16));
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(64));
}

TEST(GoldenTest, InputForgetIsOneMinusI) {
  // F = 1 - 14.5; C = -13.5*3 + 14.5*19 = 235; o = 12 + 3*235 = 717
  const Network network = Lstm(14).Set("input_forget", int64_t{1});
  EXPECT_THAT(network.Output("Y_c"), ElementsAre(235));
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(168495));
}

TEST(GoldenTest, ClipBoundsGatesAndTheCellOnItsWayOut) {
  // i = f = n = o = 10; C = 30 + 100 stays as it is; h() sees 10
  Network network = Lstm(14).Set("clip", 10.0f);
  EXPECT_THAT(network.Output("Y_c"), ElementsAre(130));
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(100));
  network.settings.options.clip_cell_input = false;
  EXPECT_THAT(network.Output("Y_c"), ElementsAre(130));
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(1300));
}

TEST(GoldenTest, ClipComesAfterBiasAndPeephole) {
  // Without bias and peephole i would be 7, with them 14.5: a clip of 14 shows which is clipped.
  EXPECT_THAT(Lstm(14).Set("clip", 14.0f).Output("Y_c"), ElementsAre(14 * 3 + 14 * 14));
}

TEST(GoldenTest, ClipOfInfinityIsNone) {
  EXPECT_THAT(Lstm(14).Set("clip", HUGE_VALF).Output("Y_h"), ElementsAre(388788));
}

// x = 2, h = 3. Rows z, r, h.
//   z = 1*2 + 4*3 + 0.5 + 1 = 15.5    r = 2*2 + 5*3 + 1 + 1 = 21
//   n = 3*2 + 6*(21*3) + 4 + 2 = 390, or with linear_before_reset 3*2 + 21*(6*3 + 4) + 2 = 470
//   s = (1 - 15.5)*n + 15.5*3
Network Gru(int64_t version) {
  Network network;
  network.op = {"", "GRU", version, {}, {}};
  network.Set("activations", Names{"Affine", "Affine"});
  network.Put("X", {1, 1, 1}, {2}).Put("W", {1, 3, 1}, {1, 2, 3}).Put("R", {1, 3, 1}, {4, 5, 6});
  network.Put("B", {1, 6}, {0.5, 1, 2, 1, 1, 4}).Put("initial_h", {1, 1, 1}, {3});
  return network;
}

TEST(GoldenTest, GruOfEveryVersion) {
  for (int64_t version : {1, 3, 7, 14, 22}) {
    EXPECT_THAT(Gru(version).Output("Y"), ElementsAre(-5608.5)) << version;
    EXPECT_THAT(Gru(version).Output("Y_h"), ElementsAre(-5608.5)) << version;
    if (version == 1) continue;
    EXPECT_THAT(Gru(version).Set("linear_before_reset", int64_t{1}).Output("Y_h"), ElementsAre(-6768.5)) << version;
    EXPECT_THAT(Gru(version).Set("linear_before_reset", int64_t{0}).Output("Y_h"), ElementsAre(-5608.5)) << version;
  }
}

TEST(GoldenTest, ClipOfGruBoundsTheFinishedSumOnly) {
  // r = 1/2 from its bias; inner Rh h + Rbh = 22 is above the clip, the sum 6 + 11 - 12 = 5 is not.
  Network network = Gru(14).Set("clip", 10.0f).Set("linear_before_reset", int64_t{1});
  network.Put("W", {1, 3, 1}, {0, 0, 3}).Put("R", {1, 3, 1}, {0, 0, 6}).Put("B", {1, 6}, {0, 0.5, -12, 0, 0, 4});
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(5));  // z = 0
}

// The reset gate acts on h before the product, or on the product: two units tell which.
//   z = 0; r = (1, 2); h = (3, 5); Rh = [[1, 10], [100, 1000]]
TEST(GoldenTest, ResetBeforeOrAfterTheProduct) {
  Network network;
  network.op = {"", "GRU", 14, {}, {}};
  network.Set("activations", Names{"Affine", "Affine"});
  network.Put("X", {1, 1, 0}, {}).Put("W", {1, 6, 0}, {});
  network.Put("R", {1, 6, 2}, {0, 0, 0, 0, 0, 0, 0, 0, 1, 10, 100, 1000});
  network.Put("B", {1, 12}, {0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}).Put("initial_h", {1, 1, 2}, {3, 5});
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(3 + 100, 300 + 10000));
  network.Set("linear_before_reset", int64_t{1});
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(3 + 50, 2 * (300 + 5000)));
}

Network Rnn(int64_t version, const std::string& function = "Affine") {
  Network network;
  network.op = {"", "RNN", version, {}, {}};
  return network.Set("activations", Names{function});
}

// R is used transposed in every version: h R^T, i.e. rows of R are output units.
TEST(GoldenTest, RowsOfRAreOutputUnits) {
  for (int64_t version : {1, 7, 14, 22}) {
    Network network = Rnn(version);
    network.Put("X", {1, 1, 2}, {1, 2}).Put("W", {1, 2, 2}, {1, 10, 100, 1000});
    network.Put("R", {1, 2, 2}, {1, 2, 3, 4}).Put("initial_h", {1, 1, 2}, {1, 10});
    EXPECT_THAT(network.Output("Y_h"), ElementsAre(21 + 21, 2100 + 43)) << version;
  }
}

// Running sums: W = R = 1. Row 0: 1 2 3 4; row 1: 10 20 and padding.
Network Sums() {
  Network network = Rnn(14);
  const double nan = std::nan("");
  network.Put("X", {4, 2, 1}, {1, 10, 2, 20, 3, nan, 4, nan}).Lengths({4, 2});
  return network.Put("W", {1, 1, 1}, {1}).Put("R", {1, 1, 1}, {1});
}

TEST(GoldenTest, LengthsForward) {
  EXPECT_THAT(Sums().Output("Y"), ElementsAre(1, 10, 3, 30, 6, 0, 10, 0));
  EXPECT_THAT(Sums().Output("Y_h"), ElementsAre(10, 30));
}

TEST(GoldenTest, ReverseStartsAtEachRowsOwnLastStep) {
  const Network network = Sums().Set("direction", std::string("reverse"));
  EXPECT_THAT(network.Output("Y"), ElementsAre(10, 30, 9, 20, 7, 0, 4, 0));
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(10, 30));
}

TEST(GoldenTest, BidirectionalHasBothAlongD) {
  Network network = Sums().Set("direction", std::string("bidirectional")).Set("activations", Names{"Affine", "Affine"});
  network.Set("activation_alpha", std::vector<float>{1, 2});  // the backward network doubles
  network.Put("W", {2, 1, 1}, {1, 1}).Put("R", {2, 1, 1}, {1, 1}).Put("initial_h", {2, 2, 1}, {100, 0, 0, 1});
  // Backward row 0: 8, 2*(3+8) = 22, 2*(2+22) = 48, 2*(1+48) = 98. Row 1 from 1: 2*(20+1) = 42, 2*(10+42) = 104.
  EXPECT_THAT(network.Output("Y"), ElementsAre(101, 10, 98, 104,  //
                                               103, 30, 48, 42,   //
                                               106, 0, 22, 0,     //
                                               110, 0, 8, 0));
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(110, 30, 98, 104));
}

TEST(GoldenTest, Layout1IsBatchFirst) {
  Network network = Sums().Set("layout", int64_t{1}).Set("direction", std::string("bidirectional"));
  network.Set("activations", Names{"Affine", "Affine"});
  network.Put("X", {2, 4, 1}, {1, 2, 3, 4, 10, 20, 7, 7}).Put("W", {2, 1, 1}, {1, 1}).Put("R", {2, 1, 1}, {1, 1});
  network.Put("initial_h", {2, 2, 1}, {0, 100, 1000, 0});                        // [N, D, H]
  EXPECT_THAT(network.Output("Y"), ElementsAre(1, 110, 3, 109, 6, 107, 10, 104,  //
                                               1010, 30, 1030, 20, 0, 0, 0, 0));
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(10, 110, 1030, 30));
}

TEST(GoldenTest, RowsOfLengthZero) {
  Network network = Sums().Lengths({0, 2}).Put("initial_h", {1, 2, 1}, {5, 0});
  for (const char* direction : {"forward", "reverse"}) {
    network.Set("direction", std::string(direction));
    network.settings.options.empty_row_state = EmptyRowState::kZeros;
    EXPECT_THAT(network.Output("Y_h"), ElementsAre(0, 30));
    network.settings.options.empty_row_state = EmptyRowState::kInitial;
    EXPECT_THAT(network.Output("Y_h"), ElementsAre(5, 30));
    EXPECT_EQ(network.Output("Y")[0], 0);
  }
}

TEST(GoldenTest, NoStepsAtAll) {
  Network network = Sums().Put("X", {0, 2, 1}, {}).Lengths({0, 0}).Put("initial_h", {1, 2, 1}, {5, 6});
  EXPECT_THAT(network.Output("Y"), ElementsAre());
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(0, 0));
  network.settings.options.empty_row_state = EmptyRowState::kInitial;
  EXPECT_THAT(network.Output("Y_h"), ElementsAre(5, 6));
}

TEST(GoldenTest, NoInputWidthLeavesTheRecurrence) {
  Network network = Rnn(14).Put("X", {3, 1, 0}, {}).Put("W", {1, 1, 0}, {}).Put("R", {1, 1, 1}, {2});
  network.Put("initial_h", {1, 1, 1}, {1});
  EXPECT_THAT(network.Output("Y"), ElementsAre(2, 4, 8));
}

TEST(GoldenTest, ThresholdedReluKeepsTheThreshold) {
  Network network = Rnn(14, "ThresholdedRelu").Put("W", {1, 1, 1}, {1}).Put("R", {1, 1, 1}, {0});
  network.Put("X", {3, 1, 1}, {1, 0.75, 2});
  EXPECT_THAT(network.Output("Y"), ElementsAre(1, 0, 2));
}

TEST(GoldenTest, SoftplusDoesNotOverflow) {
  Network network = Rnn(14, "Softplus").Put("W", {1, 1, 1}, {1}).Put("R", {1, 1, 1}, {0}).Put("X", {1, 1, 1}, {5000});
  EXPECT_THAT(network.Output("Y"), ElementsAre(5000));
}

TEST(GoldenTest, DefaultFunctions) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto near = [](double v) { return ElementsAre(testing::DoubleNear(v, 1e-15)); };
  Network rnn = Rnn(7).Put("X", {1, 1, 1}, {0.5}).Put("W", {1, 1, 1}, {1}).Put("R", {1, 1, 1}, {1});
  rnn.op.attributes.clear();
  EXPECT_THAT(rnn.Output("Y"), near(std::tanh(0.5)));

  Network gru = Gru(7).Put("X", {1, 1, 1}, {0.5}).Put("W", {1, 3, 1}, {1, 2, 3}).Put("R", {1, 3, 1}, {0, 0, 0});
  gru.op.attributes.clear();
  gru.Put("B", {1, 6}, {0, 0, 0, 0, 0, 0}).Put("initial_h", {1, 1, 1}, {0.25});
  const double z = sigmoid(0.5);
  EXPECT_THAT(gru.Output("Y"), near((1 - z) * std::tanh(1.5) + z * 0.25));

  Network lstm = Lstm(7).Put("X", {1, 1, 1}, {0.5}).Put("B", {1, 8}, Doubles(8, 0)).Put("P", {1, 3}, {0, 0, 0});
  lstm.op.attributes.clear();
  lstm.Put("initial_h", {1, 1, 1}, {0}).Put("initial_c", {1, 1, 1}, {0.25});
  const double c = sigmoid(1.5) * 0.25 + sigmoid(0.5) * std::tanh(2.0);
  EXPECT_THAT(lstm.Output("Y_c"), near(c));
  EXPECT_THAT(lstm.Output("Y_h"), near(sigmoid(1.0) * std::tanh(c)));
}

// 2048 + 1 is no float16; a state kept in float32 gets to 2050 all the same.
TEST(GoldenTest, SixteenBitDataKeepsItsStateInFloat32) {
  for (DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    const double start = type == DataType::kFloat16 ? 2048 : 256;
    Network network = Rnn(22).Put("X", {2, 1, 1}, {1, 1}, type).Put("W", {1, 1, 1}, {1}, type);
    network.Put("R", {1, 1, 1}, {1}, type).Put("initial_h", {1, 1, 1}, {start}, type);
    EXPECT_THAT(network.Output("Y"), ElementsAre(start, start + 2)) << DataTypeName(type);
    network.settings.steps_per_slice = 1;
    network.settings.carry_exported = true;
    EXPECT_THAT(network.Output("Y"), ElementsAre(start, start + 2)) << DataTypeName(type);
  }
}

}  // namespace
}  // namespace rnnserve::golden_onnx
