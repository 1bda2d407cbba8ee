// SPDX-License-Identifier: Apache-2.0
// Where each sequence starts, how it walks, and which memory its states have: T = 4, N = 2, I = 3, H = 2, four bytes
// each.
#include <gtest/gtest.h>

#include "tests/engine/op/example_operator.h"

namespace rnnserve {
namespace {

// Everything MakeSequences refers to, alive together.
struct Made {
  Example example;
  OpSpec spec;
  std::vector<NamedTensor> views;
  RunPlan plan;
  std::vector<std::vector<std::byte>> buffers;
  LayerSequences sequences;

  std::ptrdiff_t X(const Sequence& s) const { return s.x - plan.x.data.data(); }
  std::ptrdiff_t Y(const Sequence& s) const { return s.y - buffers[0].data(); }
  std::ptrdiff_t FinalH(const Sequence& s) const { return s.final_h - buffers[1].data(); }
  std::ptrdiff_t InitialH(const Sequence& s) const { return s.initial_h - plan.initial[0].h->data.data(); }
};

std::unique_ptr<Made> Make(Example example) {
  auto made = std::make_unique<Made>();
  made->example = std::move(example);
  made->views = Views(made->example.inputs);
  made->spec = ResolveOperator(made->example.op, made->views).value();
  made->plan = PlanRun(made->spec, made->views, made->example.wanted, made->example.options).value();
  std::vector<std::byte*> pointers;
  for (const OutputPlan& output : made->plan.outputs) {
    made->buffers.emplace_back(static_cast<size_t>(output.bytes));
    pointers.push_back(made->buffers.back().data());
  }
  made->sequences = MakeSequences(made->spec, made->plan, pointers);
  return made;
}

Example Bidirectional(Example example) {
  example.op.attributes["direction"] = std::string("bidirectional");
  for (OwnedTensor& input : example.inputs) {
    if (input.name == "X" || input.name.starts_with("sequence")) continue;
    const size_t axis = input.shape[0] == 1 ? 0 : 1;  // initial states of batch-first operators
    input.shape[axis] = 2;
    input = FilledTensor(input.name, input.type, input.shape, 0.25);
  }
  return example;
}

TEST(SequencesTest, ForwardLayout0) {
  const auto made = Make(OnnxExample("RNN", 14));
  ASSERT_EQ(made->sequences.size(), 2u);
  const Sequence& row0 = made->sequences[0];
  EXPECT_EQ(row0.length, 4);
  EXPECT_EQ(made->X(row0), 0);
  EXPECT_EQ(row0.x_stride, 2 * 3 * 4);
  EXPECT_EQ(made->Y(row0), 0);
  EXPECT_EQ(row0.y_stride, 2 * 2 * 4);
  const Sequence& row1 = made->sequences[1];
  EXPECT_EQ(row1.row, 1);
  EXPECT_EQ(row1.length, 1);
  EXPECT_EQ(made->X(row1), 3 * 4);
  EXPECT_EQ(made->Y(row1), 2 * 4);
  EXPECT_EQ(made->FinalH(row1), 2 * 4);
  EXPECT_EQ(made->InitialH(row1), 2 * 4);
  EXPECT_EQ(row1.final_c, nullptr);
  EXPECT_EQ(row1.initial_c, nullptr);
}

TEST(SequencesTest, ReverseStartsAtTheRowsOwnLastStepAndWalksBack) {
  Example example = OnnxExample("RNN", 14);
  example.op.attributes["direction"] = std::string("reverse");
  example.Put(MakeTensor("sequence_lens", DataType::kInt32, {2}, {4, 2}));
  const auto made = Make(example);
  ASSERT_EQ(made->sequences.size(), 2u);
  const Sequence& row1 = made->sequences[1];
  EXPECT_EQ(row1.direction, 0);
  EXPECT_EQ(made->X(row1), (1 * 2 + 1) * 3 * 4);
  EXPECT_EQ(row1.x_stride, -2 * 3 * 4);
  EXPECT_EQ(made->Y(row1), (1 * 2 + 1) * 2 * 4);
  EXPECT_EQ(row1.y_stride, -2 * 2 * 4);
  EXPECT_EQ(made->X(made->sequences[0]), 3 * 2 * 3 * 4);
}

TEST(SequencesTest, BidirectionalLayout1) {
  Example example = OnnxExample("RNN", 14);
  example.op.attributes["layout"] = int64_t{1};
  example.PutFilled("X", {2, 4, 3});
  example.PutFilled("initial_h", {2, 1, 2});
  const auto made = Make(Bidirectional(example));
  ASSERT_EQ(made->sequences.size(), 4u);
  const Sequence& back0 = made->sequences[2];
  EXPECT_EQ(back0.direction, 1);
  EXPECT_EQ(back0.row, 0);
  EXPECT_EQ(made->X(back0), 3 * 3 * 4);
  EXPECT_EQ(back0.x_stride, -3 * 4);
  EXPECT_EQ(made->Y(back0), (3 * 2 + 1) * 2 * 4);  // [N, T, D, H]
  EXPECT_EQ(back0.y_stride, -2 * 2 * 4);
  const Sequence& back1 = made->sequences[3];
  EXPECT_EQ(made->FinalH(back1), (1 * 2 + 1) * 2 * 4);  // [N, D, H]
  EXPECT_EQ(made->InitialH(back1), (1 * 2 + 1) * 2 * 4);
}

TEST(SequencesTest, BidirectionalOpenVino) {
  const auto made = Make(Bidirectional(OpenVinoExample("GRUSequence")));
  ASSERT_EQ(made->sequences.size(), 4u);
  const Sequence& back1 = made->sequences[3];
  EXPECT_EQ(back1.length, 1);
  EXPECT_EQ(made->X(back1), 4 * 3 * 4);
  EXPECT_EQ(made->Y(back1), (1 * 2 + 1) * 4 * 2 * 4);  // [N, D, T, H]
  EXPECT_EQ(back1.y_stride, -2 * 4);
  EXPECT_EQ(made->FinalH(back1), (1 * 2 + 1) * 2 * 4);
}

TEST(SequencesTest, WhatIsNotWantedHasNoMemory) {
  Example example = OnnxExample("LSTM", 14);
  example.wanted = {"Y_c"};
  example.Drop("initial_h");
  const auto made = Make(example);
  ASSERT_EQ(made->sequences.size(), 2u);
  EXPECT_EQ(made->sequences[1].y, nullptr);
  EXPECT_EQ(made->sequences[1].final_h, nullptr);
  EXPECT_EQ(made->sequences[1].final_c, made->buffers[0].data() + 2 * 4);
  EXPECT_EQ(made->sequences[1].initial_h, nullptr);
  EXPECT_NE(made->sequences[1].initial_c, nullptr);
}

TEST(SequencesTest, RowsOfLengthZeroMakeNoSequence) {
  Example example = OnnxExample("LSTM", 14);
  example.Put(MakeTensor("sequence_lens", DataType::kInt32, {2}, {0, 2}));
  auto made = Make(example);
  ASSERT_EQ(made->sequences.size(), 1u);
  EXPECT_EQ(made->sequences[0].row, 1);
  EXPECT_EQ(made->buffers[1], std::vector<std::byte>(16)) << "zeros although an initial state was given";

  example.options.empty_row_state = EmptyRowState::kInitial;
  made = Make(example);
  const std::vector<std::byte>& initial = made->example.Input("initial_h").bytes;
  EXPECT_TRUE(std::equal(initial.begin(), initial.begin() + 8, made->buffers[1].begin()));
  EXPECT_TRUE(std::equal(initial.begin(), initial.begin() + 8, made->buffers[2].begin()));
  example.Drop("initial_h");
  made = Make(example);
  EXPECT_EQ(made->buffers[1], std::vector<std::byte>(16)) << "the initial state is zero where none is given";
}

TEST(SequencesTest, NoRowsOrNoStepsMakeNoSequences) {
  Example example = OnnxExample("RNN", 14);
  example.Drop("sequence_lens");
  example.PutFilled("X", {0, 2, 3});
  EXPECT_TRUE(Make(example)->sequences.empty());
  example.PutFilled("X", {4, 0, 3});
  example.PutFilled("initial_h", {1, 0, 2});
  EXPECT_TRUE(Make(example)->sequences.empty());
  for (int64_t layout : {0, 1}) {  // T is bound by nothing here
    example.op.attributes["layout"] = layout;
    example.PutFilled("W", {1, 2, 0});
    const int64_t steps = int64_t{1} << 60;
    example.Put({"X", DataType::kFloat, layout ? Shape{0, steps, 0} : Shape{steps, 0, 0}, {}});
    example.PutFilled("initial_h", layout ? Shape{0, 1, 2} : Shape{1, 0, 2});
    example.wanted = {"Y_h"};
    EXPECT_TRUE(Make(example)->sequences.empty());
  }
}

}  // namespace
}  // namespace rnnserve
