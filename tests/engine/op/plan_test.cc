// SPDX-License-Identifier: Apache-2.0
// Which outputs are planned, with which shapes; zero sizes; signatures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "tests/engine/op/example_operator.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;

std::vector<std::string> OutputNames(const Example& example) {
  const absl::StatusOr<RunPlan> plan = Plan(example);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> names;
  for (const OutputPlan& output : plan->outputs) names.push_back(output.name);
  return names;
}

TEST(PlanTest, AllOutputsByDefault) {
  EXPECT_THAT(OutputNames(OnnxExample("LSTM", 14)), ElementsAre("Y", "Y_h", "Y_c"));
  EXPECT_THAT(OutputNames(OnnxExample("GRU", 7)), ElementsAre("Y", "Y_h"));
  EXPECT_THAT(OutputNames(OnnxExample("RNN", 22)), ElementsAre("Y", "Y_h"));
  EXPECT_THAT(OutputNames(OpenVinoExample("LSTMSequence", 1)), ElementsAre("Y", "Ho", "Co"));
  EXPECT_THAT(OutputNames(OpenVinoExample("GRUSequence")), ElementsAre("Y", "Ho"));
}

TEST(PlanTest, WantedOutputsComeInTheOperatorsOrder) {
  Example example = OnnxExample("LSTM", 14);
  example.wanted = {"Y_c", "Y"};
  EXPECT_THAT(OutputNames(example), ElementsAre("Y", "Y_c"));
}

// Places are fixed; output_sequence only decides whether Y is sent unasked.
TEST(PlanTest, OutputSequence) {
  for (const auto& [op_type, version] :
       {std::pair("LSTM", 1), std::pair("GRU", 1), std::pair("GRU", 3), std::pair("RNN", 1)}) {
    SCOPED_TRACE(std::string(op_type) + std::to_string(version));
    Example example = OnnxExample(op_type, version);
    EXPECT_THAT(OutputNames(example), testing::Not(testing::Contains("Y"))) << "absent means 0";
    example.op.attributes["output_sequence"] = int64_t{0};
    EXPECT_THAT(OutputNames(example), testing::Not(testing::Contains("Y")));
    example.wanted = {"Y"};
    EXPECT_THAT(OutputNames(example), ElementsAre("Y"));
    example.wanted.clear();
    example.op.attributes["output_sequence"] = int64_t{1};
    EXPECT_THAT(OutputNames(example), testing::Contains("Y"));
  }
}

TEST(PlanTest, OutputShapesOfEachLayout) {
  Example example = OnnxExample("LSTM", 14);
  absl::StatusOr<RunPlan> plan = Plan(example);
  EXPECT_THAT(plan->outputs[0].shape, ElementsAre(4, 1, 2, 2));  // [T, D, N, H]
  EXPECT_THAT(plan->outputs[1].shape, ElementsAre(1, 2, 2));     // [D, N, H]
  EXPECT_EQ(plan->outputs[0].bytes, 64);
  EXPECT_EQ(plan->outputs[2].bytes, 16);

  example.op.attributes["layout"] = int64_t{1};
  example.PutFilled("X", {2, 4, 3});
  example.PutFilled("initial_h", {2, 1, 2});
  example.PutFilled("initial_c", {2, 1, 2});
  plan = Plan(example);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->steps, 4);
  EXPECT_EQ(plan->rows, 2);
  EXPECT_THAT(plan->outputs[0].shape, ElementsAre(2, 4, 1, 2));  // [N, T, D, H]
  EXPECT_THAT(plan->outputs[1].shape, ElementsAre(2, 1, 2));     // [N, D, H]

  plan = Plan(OpenVinoExample("LSTMSequence"));
  EXPECT_THAT(plan->outputs[0].shape, ElementsAre(2, 1, 4, 2));  // [N, D, T, H]
  EXPECT_THAT(plan->outputs[2].shape, ElementsAre(2, 1, 2));
}

TEST(PlanTest, LengthsAreReadAsInt32OrInt64OrAllSteps) {
  EXPECT_THAT(Plan(OnnxExample("GRU", 7))->lengths, ElementsAre(4, 1));
  EXPECT_THAT(Plan(OpenVinoExample("GRUSequence"))->lengths, ElementsAre(4, 1));
  Example example = OpenVinoExample("GRUSequence");
  example.Put(MakeTensor("sequence_lengths", DataType::kInt32, {2}, {0, 3}));
  EXPECT_THAT(Plan(example)->lengths, ElementsAre(0, 3));
  example = OnnxExample("GRU", 7);
  example.Drop("sequence_lens");
  EXPECT_THAT(Plan(example)->lengths, ElementsAre(4, 4));
}

TEST(PlanTest, ZeroSizesAreValid) {
  Example no_rows = OnnxExample("LSTM", 14);
  no_rows.PutFilled("X", {4, 0, 3});
  no_rows.Put(MakeTensor("sequence_lens", DataType::kInt32, {0}, {}));
  no_rows.PutFilled("initial_h", {1, 0, 2});
  no_rows.PutFilled("initial_c", {1, 0, 2});
  absl::StatusOr<RunPlan> plan = Plan(no_rows);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->outputs[0].shape, ElementsAre(4, 1, 0, 2));
  EXPECT_EQ(plan->outputs[0].bytes, 0);

  Example no_steps = OnnxExample("LSTM", 14);
  no_steps.PutFilled("X", {0, 2, 3});
  no_steps.Put(MakeTensor("sequence_lens", DataType::kInt32, {2}, {0, 0}));
  plan = Plan(no_steps);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->outputs[0].shape, ElementsAre(0, 1, 2, 2));
  EXPECT_EQ(plan->outputs[1].bytes, 16);

  Example no_width = OnnxExample("LSTM", 14);
  no_width.PutFilled("X", {4, 2, 0});
  no_width.PutFilled("W", {1, 8, 0});
  plan = Plan(no_width);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->steps, 4);
}

// An X of no bytes must not buy memory or time.
TEST(PlanTest, RowsAndStepsWithoutDataAreBounded) {
  const int64_t limit = int64_t{1} << 20;
  Example example = OnnxExample("RNN", 14);
  example.Drop("sequence_lens");
  example.Drop("initial_h");
  example.PutFilled("W", {1, 2, 0});
  for (const auto& [steps, rows, ok] :
       {std::tuple(limit, int64_t{1}, true), std::tuple(limit + 1, int64_t{1}, false),
        std::tuple(int64_t{1}, limit, true), std::tuple(int64_t{2}, limit, false), std::tuple(int64_t{0}, limit, true),
        std::tuple(int64_t{0}, limit + 1, false), std::tuple(int64_t{1} << 40, int64_t{1} << 20, false),
        std::tuple(int64_t{1} << 40, int64_t{0}, true)}) {
    example.Put({"X", DataType::kFloat, {steps, rows, 0}, {}});
    const absl::StatusOr<RunPlan> plan = Plan(example);
    EXPECT_EQ(plan.ok(), ok) << steps << " " << rows << " " << plan.status();
    if (!ok) {
      EXPECT_EQ(FieldOf(plan.status()), "inputs[X].shape");
    }
  }
}

TEST(PlanTest, OutputsThatOverflowAreRefused) {
  Example example = OnnxExample("RNN", 14);
  example.Drop("sequence_lens");
  example.Drop("initial_h");
  example.PutFilled("W", {1, 2, 0});
  example.Put({"X", DataType::kFloat, {(int64_t{1} << 60), 0, 0}, {}});
  EXPECT_EQ(FieldOf(Plan(example).status()), "outputs[Y]");
  example.wanted = {"Y_h"};
  EXPECT_TRUE(Plan(example).ok()) << Plan(example).status();
}

TEST(PlanTest, SignaturesNameTheOperatorsTensors) {
  const auto names = [](const std::vector<TensorSignature>& signatures) {
    std::vector<std::string> result;
    for (const TensorSignature& signature : signatures) {
      result.push_back(signature.name + ShapeString(signature.shape) + (signature.optional ? "?" : ""));
    }
    return result;
  };
  const OpSpec lstm = Resolve(OnnxExample("LSTM", 14)).value();
  EXPECT_THAT(names(DataInputs(lstm)),
              ElementsAre("X[-1, -2, 3]", "sequence_lens[-2]?", "initial_h[1, -2, 2]?", "initial_c[1, -2, 2]?"));
  EXPECT_THAT(names(Outputs(lstm)), ElementsAre("Y[-1, 1, -2, 2]?", "Y_h[1, -2, 2]?", "Y_c[1, -2, 2]?"));
  const OpSpec gru = Resolve(OpenVinoExample("GRUSequence")).value();
  EXPECT_THAT(names(DataInputs(gru)),
              ElementsAre("X[-2, -1, 3]", "initial_hidden_state[-2, 1, 2]", "sequence_lengths[-2]"));
  EXPECT_THAT(names(Outputs(gru)), ElementsAre("Y[-2, 1, -1, 2]?", "Ho[-2, 1, 2]?"));
}

}  // namespace
}  // namespace rnnserve
