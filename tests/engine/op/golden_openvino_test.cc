// SPDX-License-Identifier: Apache-2.0
// OpenVINO's operators on the networks of golden_test.cc, with relu as the identity of positive numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/reference/reference_engine.h"
#include "tests/engine/support/run_operator.h"

namespace rnnserve::golden_openvino {
namespace {

using Doubles = std::vector<double>;
using Names = std::vector<std::string>;
using testing::ElementsAre;

struct Network {
  OperatorDef op;
  std::vector<OwnedTensor> inputs;
  RunSettings settings;

  Network& Put(const std::string& name, Shape shape, const Doubles& values, DataType type = DataType::kDouble) {
    std::erase_if(inputs, [&](const OwnedTensor& input) { return input.name == name; });
    inputs.push_back(MakeTensor(name, type, std::move(shape), values));
    return *this;
  }
  Doubles Output(const std::string& name) const {
    const std::unique_ptr<Engine> engine = MakeReferenceEngine();
    const absl::StatusOr<OutputMap> outputs = RunOperator(*engine, op, inputs, {}, settings);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? outputs->at(name).Values() : Doubles{};
  }
};

OperatorDef Op(const std::string& op_type, int64_t version, Names activations) {
  return {
      "openvino",
      op_type,
      version,
      {},
      {{"hidden_size", int64_t{1}}, {"direction", std::string("FORWARD")}, {"activations", std::move(activations)}}};
}

// Rows f, i, c, o; B is the sum of both. x = 2, h = 1, c = 3:
//   f = 3*2 + 7 + 2.5 = 15.5   i = 2 + 5 + 1.5 = 8.5   n = 8 + 8 + 3 = 19   o = 4 + 6 + 2 = 12
//   C = 46.5 + 161.5 = 208     s = 12*208
Network Lstm(int64_t version) {
  Network network;
  network.op = Op("LSTMSequence", version, {"relu", "relu", "relu"});
  network.Put("X", {1, 1, 1}, {2}).Put("W", {1, 4, 1}, {3, 1, 4, 2}).Put("R", {1, 4, 1}, {7, 5, 8, 6});
  network.Put("B", {1, 4}, {2.5, 1.5, 3, 2}).Put("sequence_lengths", {1}, {1}, DataType::kInt64);
  return network.Put("initial_hidden_state", {1, 1, 1}, {1}).Put("initial_cell_state", {1, 1, 1}, {3});
}

TEST(GoldenOpenVinoTest, LstmSequenceOfBothVersions) {
  for (int64_t version : {1, 5}) {
    EXPECT_THAT(Lstm(version).Output("Y"), ElementsAre(2496));
    EXPECT_THAT(Lstm(version).Output("Ho"), ElementsAre(2496));
    EXPECT_THAT(Lstm(version).Output("Co"), ElementsAre(208));
  }
}

TEST(GoldenOpenVinoTest, ClipBoundsGatesOnlyAndZeroIsNone) {
  Network network = Lstm(5);
  network.op.attributes["clip"] = 10.0f;  // f = n = o = 10, i = 8.5
  for (bool clip_cell_input : {true, false}) {
    network.settings.options.clip_cell_input = clip_cell_input;
    EXPECT_THAT(network.Output("Co"), ElementsAre(115));
    EXPECT_THAT(network.Output("Ho"), ElementsAre(1150));
  }
  network.op.attributes["clip"] = 0.0f;
  EXPECT_THAT(network.Output("Ho"), ElementsAre(2496));
}

// z = 15.5, r = 21, h = 3; n = 390, or 470 with linear_before_reset and the bias in four parts.
TEST(GoldenOpenVinoTest, GruSequenceInBothForms) {
  Network network;
  network.op = Op("GRUSequence", 5, {"relu", "relu"});
  network.Put("X", {1, 1, 1}, {2}).Put("W", {1, 3, 1}, {1, 2, 3}).Put("R", {1, 3, 1}, {4, 5, 6});
  network.Put("B", {1, 3}, {1.5, 2, 6}).Put("sequence_lengths", {1}, {1}, DataType::kInt32);
  network.Put("initial_hidden_state", {1, 1, 1}, {3});
  EXPECT_THAT(network.Output("Ho"), ElementsAre(-5608.5));
  network.op.attributes["linear_before_reset"] = int64_t{1};
  network.Put("B", {1, 4}, {1.5, 2, 2, 4});
  EXPECT_THAT(network.Output("Ho"), ElementsAre(-6768.5));
}

// Running sums; Y is [N, D, T, H]: direction before time.
TEST(GoldenOpenVinoTest, RnnSequenceAxesLengthsAndDirections) {
  Network network;
  network.op = Op("RNNSequence", 5, {"relu"});
  network.op.attributes["direction"] = std::string("bidirectional");
  network.Put("X", {2, 4, 1}, {1, 2, 3, 4, 10, 20, 7, 7}).Put("W", {2, 1, 1}, {1, 1}).Put("R", {2, 1, 1}, {1, 1});
  network.Put("B", {2, 1}, {0, 0}).Put("sequence_lengths", {2}, {4, 2}, DataType::kInt64);
  network.Put("initial_hidden_state", {2, 2, 1}, {0, 100, 1000, 0});
  EXPECT_THAT(network.Output("Y"), ElementsAre(1, 3, 6, 10, 110, 109, 107, 104,  //
                                               1010, 1030, 0, 0, 30, 20, 0, 0));
  EXPECT_THAT(network.Output("Ho"), ElementsAre(10, 110, 1030, 30));
}

}  // namespace
}  // namespace rnnserve::golden_openvino
