// SPDX-License-Identifier: Apache-2.0
// Stacks: what fits together, which tensors there are, where each layer's sequences lie. N = 2, T = 4, float32.
#include "engine/op/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/field_error.h"
#include "tests/engine/op/example_operator.h"

namespace rnnserve::stack_of_operators {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Layers that keep what their views point into.
class Layers {
 public:
  Layers& Add(const std::string& op_type, int64_t input, int64_t hidden, int64_t directions = 1, int64_t layout = 0,
              DataType type = DataType::kFloat) {
    const int64_t g = op_type == "LSTM" ? 4 : op_type == "GRU" ? 3 : 1;
    OperatorDef& op = ops_.emplace_back();
    op.op_type = op_type;
    op.version = 14;
    if (directions == 2) op.attributes["direction"] = std::string("bidirectional");
    op.attributes["layout"] = layout;
    tensors_.push_back({FilledTensor("W", type, {directions, g * hidden, input}, 0.5),
                        FilledTensor("R", type, {directions, g * hidden, hidden}, 0.25)});
    views_.push_back(Views(tensors_.back()));
    return *this;
  }
  std::vector<LayerView> views() const {
    std::vector<LayerView> layers;
    for (size_t k = 0; k < ops_.size(); ++k) layers.push_back({ops_[k], views_[k]});
    return layers;
  }
  absl::StatusOr<StackSpec> Resolve(bool batch_first = false) const { return ResolveStack(views(), batch_first); }
  OperatorDef& op(size_t layer) { return ops_[layer]; }

 private:
  std::deque<OperatorDef> ops_;
  std::deque<std::vector<OwnedTensor>> tensors_;
  std::deque<std::vector<NamedTensor>> views_;
};

std::vector<std::string> Names(const std::vector<TensorSignature>& signatures) {
  std::vector<std::string> names;
  for (const TensorSignature& signature : signatures) {
    names.push_back(signature.name + ShapeString(signature.shape) + (signature.optional ? "?" : ""));
  }
  return names;
}

TEST(StackTest, EqualLayersHaveWholeStatesAndTheirParts) {
  const StackSpec stack = Layers().Add("LSTM", 3, 5, 2).Add("LSTM", 10, 5, 2).Resolve().value();
  EXPECT_THAT(Names(DataInputs(stack)),
              ElementsAre("X[-1, -2, 3]", "sequence_lens[-2]?", "initial_h[4, -2, 5]?", "initial_c[4, -2, 5]?",
                          "initial_h.0[2, -2, 5]?", "initial_c.0[2, -2, 5]?", "initial_h.1[2, -2, 5]?",
                          "initial_c.1[2, -2, 5]?"));
  EXPECT_THAT(Names(Outputs(stack)),
              ElementsAre("Y[-1, 2, -2, 5]?", "Y_h[4, -2, 5]?", "Y_c[4, -2, 5]?", "Y_h.0[2, -2, 5]?",
                          "Y_c.0[2, -2, 5]?", "Y_h.1[2, -2, 5]?", "Y_c.1[2, -2, 5]?"));
}

TEST(StackTest, OtherSizesAndLayoutsHavePartsOnly) {
  const StackSpec sizes = Layers().Add("GRU", 3, 5).Add("LSTM", 5, 2).Resolve().value();
  EXPECT_THAT(Names(DataInputs(sizes)), ElementsAre("X[-1, -2, 3]", "sequence_lens[-2]?", "initial_h.0[1, -2, 5]?",
                                                    "initial_h.1[1, -2, 2]?", "initial_c.1[1, -2, 2]?"));
  EXPECT_THAT(Names(Outputs(sizes)),
              ElementsAre("Y[-1, 1, -2, 2]?", "Y_h.0[1, -2, 5]?", "Y_h.1[1, -2, 2]?", "Y_c.1[1, -2, 2]?"));
  const StackSpec layout = Layers().Add("RNN", 3, 5, 1, 1).Add("RNN", 5, 5, 1, 1).Resolve().value();
  EXPECT_THAT(Names(DataInputs(layout)),
              ElementsAre("X[-2, -1, 3]", "sequence_lens[-2]?", "initial_h.0[-2, 1, 5]?", "initial_h.1[-2, 1, 5]?"));
}

TEST(StackTest, BatchFirstTurnsXAndYOnly) {
  const StackSpec one = Layers().Add("GRU", 3, 5, 2).Resolve(true).value();
  EXPECT_THAT(Names(DataInputs(one)), ElementsAre("X[-2, -1, 3]", "sequence_lens[-2]?", "initial_h[2, -2, 5]?"));
  EXPECT_THAT(Names(Outputs(one)), ElementsAre("Y[-2, -1, 2, 5]?", "Y_h[2, -2, 5]?"));
}

TEST(StackTest, LayersThatDoNotFitAreRefusedByNumber) {
  const auto refusal = [](const Layers& layers) {
    const absl::Status status = layers.Resolve().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(Layers().Add("GRU", 3, 5, 2).Add("GRU", 5, 5)),
              HasSubstr("layer 1 (GRU-14) takes 5 columns (the last axis of its W), but the layer before it gives "
                        "2 * 5 = 10"));
  EXPECT_THAT(refusal(Layers().Add("GRU", 3, 5).Add("RNN", 5, 5, 1, 0, DataType::kDouble)),
              HasSubstr("layer 1 (RNN-14) has weights of float64, but the layer before it gives float32"));
  Layers broken;
  broken.Add("GRU", 3, 5).Add("GRU", 5, 5).op(1).attributes["clip"] = -1.0f;
  EXPECT_THAT(refusal(broken), HasSubstr("layer 1: "));
  Layers openvino;
  openvino.Add("GRU", 3, 5).Add("GRU", 5, 5).op(1).op_type = "GRUSequence";
  EXPECT_THAT(refusal(openvino), HasSubstr("layer 1: "));
  Layers many;
  for (size_t k = 0; k <= kMaxLayers; ++k) many.Add("RNN", 1, 1);
  EXPECT_THAT(refusal(many), HasSubstr("1 to 64 layers, but 65 came"));
  EXPECT_THAT(refusal(Layers()), HasSubstr("but 0 came"));
}

// A request to the stack of two bidirectional LSTM layers, I = 3, H = 5.
class StackRequestTest : public testing::Test {
 protected:
  absl::StatusOr<RunPlan> Plan() {
    views_ = Views(inputs_);
    if (absl::Status names = CheckDataNames(stack_, views_); !names.ok()) return names;
    return PlanRun(stack_, views_, wanted_, {});
  }

  const StackSpec stack_ = Layers().Add("LSTM", 3, 5, 2).Add("LSTM", 10, 5, 2).Resolve().value();
  std::vector<OwnedTensor> inputs_ = {FilledTensor("X", DataType::kFloat, {4, 2, 3}, 1)};
  std::vector<std::string> wanted_;
  std::vector<NamedTensor> views_;
};

TEST_F(StackRequestTest, WholeStatesAreCutLayerByLayer) {
  inputs_.push_back(FilledTensor("initial_h", DataType::kFloat, {4, 2, 5}, 1));
  inputs_.push_back(FilledTensor("initial_c.1", DataType::kFloat, {2, 2, 5}, 1));
  const absl::StatusOr<RunPlan> plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::byte* begin = views_[1].tensor.data.data();
  ASSERT_EQ(plan->initial.size(), 2u);
  EXPECT_EQ(plan->initial[0].h->data.data(), begin);
  EXPECT_EQ(plan->initial[1].h->data.data(), begin + 2 * 2 * 5 * 4);
  EXPECT_THAT(plan->initial[1].h->shape, ElementsAre(2, 2, 5));
  EXPECT_EQ(plan->initial[1].h->data.size(), 80u);
  EXPECT_FALSE(plan->initial[0].c);
  EXPECT_EQ(plan->initial[1].c->data.data(), views_[2].tensor.data.data());
}

TEST_F(StackRequestTest, DefaultOutputsAreWholeAndPartsComeWhenNamed) {
  const auto names = [](const RunPlan& plan) {
    std::vector<std::string> result;
    for (const OutputPlan& output : plan.outputs) result.push_back(output.name);
    return result;
  };
  EXPECT_THAT(names(*Plan()), ElementsAre("Y", "Y_h", "Y_c"));
  wanted_ = {"Y_c.1", "Y_h"};
  EXPECT_THAT(names(*Plan()), ElementsAre("Y_h", "Y_c.1"));
}

TEST_F(StackRequestTest, WholeAndPartTogetherAreRefused) {
  wanted_ = {"Y_h", "Y_h.1"};
  EXPECT_EQ(FieldOf(Plan().status()), "outputs[Y_h.1]");
  wanted_ = {"Y_h.2"};
  EXPECT_EQ(FieldOf(Plan().status()), "outputs[Y_h.2]");
  wanted_.clear();
  inputs_.push_back(FilledTensor("initial_h", DataType::kFloat, {4, 2, 5}, 1));
  inputs_.push_back(FilledTensor("initial_h.1", DataType::kFloat, {2, 2, 5}, 1));
  const absl::Status both = Plan().status();
  EXPECT_EQ(FieldOf(both), "inputs[initial_h.1]");
  EXPECT_THAT(std::string(both.message()), HasSubstr("is part of initial_h, which came too; send one of them"));
}

TEST_F(StackRequestTest, WrongShapesAndNamesAreRefused) {
  inputs_.push_back(FilledTensor("initial_h", DataType::kFloat, {2, 2, 5}, 1));
  EXPECT_EQ(FieldOf(Plan().status()), "inputs[initial_h].shape");
  inputs_.back() = FilledTensor("initial_h", DataType::kDouble, {4, 2, 5}, 1);
  EXPECT_EQ(FieldOf(Plan().status()), "inputs[initial_h].data_type");
  inputs_.back() = FilledTensor("initial_c.0", DataType::kFloat, {4, 2, 5}, 1);
  EXPECT_EQ(FieldOf(Plan().status()), "inputs[initial_c.0].shape");
  inputs_.back() = FilledTensor("initial_h.2", DataType::kFloat, {2, 2, 5}, 1);
  const absl::Status unknown = Plan().status();
  EXPECT_EQ(FieldOf(unknown), "inputs[initial_h.2]");
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("this stack of 2 layers takes X, sequence_lens, initial_h"));
}

TEST_F(StackRequestTest, EachLayerWalksWhatTheOneBeforeGave) {
  inputs_.push_back(MakeTensor("sequence_lens", DataType::kInt32, {2}, {4, 3}));
  wanted_ = {"Y", "Y_h"};
  const RunPlan plan = Plan().value();
  EXPECT_EQ(BytesAfter(stack_, plan, 0), 4 * 2 * 10 * 4);
  EXPECT_EQ(BytesAfter(stack_, plan, 1), 0);
  std::vector<std::byte> y(static_cast<size_t>(plan.outputs[0].bytes)), y_h(static_cast<size_t>(plan.outputs[1].bytes));
  std::vector<std::byte> between(static_cast<size_t>(BytesAfter(stack_, plan, 0)));
  const std::vector<std::byte*> buffers = {y.data(), y_h.data()};

  const LayerSequences first = MakeSequences(stack_, plan, buffers, 0, {.y = between.data()});
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(first[1].y - between.data(), 10 * 4) << "row 1";
  EXPECT_EQ(first[1].y_stride, 2 * 10 * 4);
  EXPECT_EQ(first[3].y - between.data(), ((2 * 2 + 1) * 10 + 5) * 4) << "backwards from step 2 of row 1, second half";
  EXPECT_EQ(first[3].y_stride, -2 * 10 * 4);
  EXPECT_EQ(first[3].final_h - y_h.data(), 3 * 5 * 4);
  EXPECT_EQ(first[3].final_c, nullptr);

  const LayerSequences second = MakeSequences(stack_, plan, buffers, 1, {.x = between.data()});
  ASSERT_EQ(second.size(), 4u);
  EXPECT_EQ(second[1].x - between.data(), 10 * 4);
  EXPECT_EQ(second[1].x_stride, 2 * 10 * 4);
  EXPECT_EQ(second[1].y - y.data(), 5 * 4);
  EXPECT_EQ(second[1].y_stride, 2 * 2 * 5 * 4);
  EXPECT_EQ(second[3].x - between.data(), (2 * 2 + 1) * 10 * 4);
  EXPECT_EQ(second[3].final_h - y_h.data(), (2 * 2 + 3) * 5 * 4) << "after the first layer's two directions";
}

TEST_F(StackRequestTest, EmptyRowsAreListedOnRequest) {
  inputs_.push_back(MakeTensor("sequence_lens", DataType::kInt32, {2}, {0, 3}));
  RunPlan plan = Plan().value();
  std::vector<std::byte> between(static_cast<size_t>(BytesAfter(stack_, plan, 0)));
  std::vector<std::vector<std::byte>> outputs;
  std::vector<std::byte*> buffers;
  for (const OutputPlan& output : plan.outputs) {
    buffers.push_back(outputs.emplace_back(static_cast<size_t>(output.bytes)).data());
  }
  EXPECT_EQ(MakeSequences(stack_, plan, buffers, 0, {.y = between.data()}).size(), 2u);
  plan.list_empty_rows = true;
  const LayerSequences all = MakeSequences(stack_, plan, buffers, 0, {.y = between.data()});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].length, 0);
  EXPECT_NE(all[0].final_h, nullptr);
}

}  // namespace
}  // namespace rnnserve::stack_of_operators
