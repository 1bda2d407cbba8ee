// SPDX-License-Identifier: Apache-2.0
// Weights on their way into cells: block orders, directions, widening, and which operators make equal cells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/engine/op/example_operator.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;

// 0, 1, 2, ... in row-major order.
OwnedTensor Counting(const std::string& name, Shape shape, DataType type = DataType::kFloat) {
  std::vector<double> values(static_cast<size_t>(NumElements(shape).value()));
  std::iota(values.begin(), values.end(), 0.0);
  return MakeTensor(name, type, std::move(shape), values);
}

std::vector<CellPtr> Cells(const Example& example) {
  const std::vector<NamedTensor> views = Views(example.inputs);
  return MakeCells(ResolveOperator(example.op, views).value(), views, example.options).value();
}

TEST(CellsTest, OnnxLstmKeepsItsOrder) {
  Example example = OnnxExample("LSTM", 14);
  example.Put(Counting("W", {1, 8, 3}));
  example.Put(Counting("B", {1, 16}));
  example.Put(Counting("P", {1, 6}));
  const std::vector<CellPtr> cells = Cells(example);
  ASSERT_EQ(cells.size(), 1u);
  const CellWeights<float>& weights = cells[0]->weights_f32();
  EXPECT_EQ(weights.w.size(), 24u);
  EXPECT_EQ(weights.w[23], 23.0f);
  EXPECT_THAT(weights.wb, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(weights.rb, ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(weights.p, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(CellsTest, DirectionsTakeTheirOwnHalf) {
  Example example = OnnxExample("RNN", 14);
  example.op.attributes["direction"] = std::string("bidirectional");
  example.Put(Counting("W", {2, 2, 3}));
  example.Put(Counting("R", {2, 2, 2}));
  example.Put(Counting("B", {2, 4}));
  const std::vector<CellPtr> cells = Cells(example);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_THAT(cells[1]->weights_f32().w, ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(cells[1]->weights_f32().r, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(cells[0]->weights_f32().rb, ElementsAre(2, 3));
  EXPECT_THAT(cells[1]->weights_f32().wb, ElementsAre(4, 5));
  EXPECT_THAT(cells[1]->weights_f32().rb, ElementsAre(6, 7));
}

TEST(CellsTest, AbsentBiasIsZeros) {
  Example example = OnnxExample("GRU", 14);
  example.Drop("B");
  EXPECT_THAT(Cells(example)[0]->weights_f32().wb, ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(CellsTest, OpenVinoLstmTurnsFicoIntoIofc) {
  Example example = OpenVinoExample("LSTMSequence");
  example.Put(Counting("R", {1, 8, 2}));
  example.Put(Counting("B", {1, 8}));
  const CellWeights<float> weights = Cells(example)[0]->weights_f32();
  EXPECT_THAT(weights.wb, ElementsAre(2, 3, 6, 7, 0, 1, 4, 5));
  EXPECT_THAT(weights.rb, testing::Each(0));
  EXPECT_THAT(weights.r, ElementsAre(4, 5, 6, 7, 12, 13, 14, 15, 0, 1, 2, 3, 8, 9, 10, 11));
}

TEST(CellsTest, OpenVinoGruBiasOfFourParts) {
  Example example = OpenVinoExample("GRUSequence");
  example.op.attributes["linear_before_reset"] = int64_t{1};
  example.Put(Counting("B", {1, 8}));
  const CellWeights<float> weights = Cells(example)[0]->weights_f32();
  EXPECT_THAT(weights.wb, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(weights.rb, ElementsAre(0, 0, 0, 0, 6, 7));
}

TEST(CellsTest, SixteenBitsAreWidenedAndDoublesKept) {
  Example example = OnnxExample("RNN", 22);
  for (DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    for (OwnedTensor& input : example.inputs) {
      if (IsFloating(input.type)) input = FilledTensor(input.name, type, input.shape, 1.5);
    }
    const CellPtr cell = Cells(example)[0];
    EXPECT_THAT(cell->weights_f32().w, testing::Each(1.5f));
    EXPECT_EQ(cell->spec().data_type, type);
  }
  for (OwnedTensor& input : example.inputs) {
    if (IsFloating(input.type)) input = FilledTensor(input.name, DataType::kDouble, input.shape, 0.1);
  }
  EXPECT_THAT(Cells(example)[0]->weights_f64().w, testing::Each(0.1));
  EXPECT_TRUE(Cells(example)[0]->weights_f32().w.empty());
}

// Equal equations and weights make equal cells, whatever words they came in.
TEST(CellsTest, EqualCellsHaveEqualKeys) {
  Example onnx = OnnxExample("LSTM", 7);
  onnx.Drop("P");
  for (const char* zero : {"B"}) onnx.Put(FilledTensor(zero, DataType::kFloat, {1, 16}, 0));
  const std::string key = Cells(onnx)[0]->key();

  Example other_words = onnx;
  other_words.op.version.reset();
  other_words.op.opset = 17;
  other_words.op.attributes = {{"activations", std::vector<std::string>{"sigmoid", "TANH", "tanh"}},
                               {"direction", std::string("reverse")},
                               {"clip", std::numeric_limits<float>::infinity()},
                               {"hidden_size", int64_t{2}},
                               {"layout", int64_t{1}}};
  EXPECT_EQ(Cells(other_words)[0]->key(), key);
  other_words.Drop("B");
  EXPECT_EQ(Cells(other_words)[0]->key(), key) << "no B is a B of zeros";

  Example openvino = OpenVinoExample("LSTMSequence");
  openvino.Put(FilledTensor("B", DataType::kFloat, {1, 8}, 0));
  openvino.op.attributes["clip"] = 0.0f;
  EXPECT_EQ(Cells(openvino)[0]->key(), key);

  Example clipped = onnx;
  clipped.op.attributes["clip"] = 3.0f;
  EXPECT_NE(Cells(clipped)[0]->key(), key);
}

TEST(CellsTest, ClipCellInputIsOnlyReadWhereItMatters) {
  Example example = OnnxExample("LSTM", 14);
  EXPECT_FALSE(Cells(example)[0]->spec().clip_cell_input) << "no clip";
  example.op.attributes["clip"] = 3.0f;
  EXPECT_TRUE(Cells(example)[0]->spec().clip_cell_input);
  example.options.clip_cell_input = false;
  EXPECT_FALSE(Cells(example)[0]->spec().clip_cell_input);

  Example gru = OnnxExample("GRU", 14);
  gru.op.attributes["clip"] = 3.0f;
  EXPECT_FALSE(Cells(gru)[0]->spec().clip_cell_input);
  Example openvino = OpenVinoExample("LSTMSequence");
  openvino.op.attributes["clip"] = 3.0f;
  EXPECT_FALSE(Cells(openvino)[0]->spec().clip_cell_input) << "OpenVINO: gates only, whatever the option says";
}

}  // namespace
}  // namespace rnnserve
