// SPDX-License-Identifier: Apache-2.0
// From 1 to 4,096 steps: results as of the reference engine, however the time is cut, in memory that does not grow.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/onednn/call_plan.h"
#include "engine/onednn/onednn_engine.h"
#include "engine/onednn/onednn_program.h"
#include "engine/reference/reference_engine.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::onednn {
namespace {

using cpu::DefaultSpec;
using cpu::RandomCell;
using cpu::Sequences;

constexpr int64_t kSteps[] = {1, 2, 31, 32, 33, 63, 64, 100, 1000, 4095, 4096};
// What inputs, outputs and scratchpad of a call take; see StepsOfCall.
constexpr size_t kCallBytes = size_t{3} << 20;

std::vector<CellSpec> Specs() {
  std::vector<CellSpec> specs;
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
    specs.push_back(DefaultSpec(kind, DataType::kFloat, 7, 33));
  }
  specs.push_back(specs[1]);
  specs.back().linear_before_reset = true;
  return specs;
}

class LongSequencesTest : public testing::TestWithParam<CellSpec> {
 protected:
  Sequences Rows(const Program& program, const std::vector<int64_t>& steps) {
    Sequences rows(program, GetParam());
    for (size_t k = 0; k < steps.size(); ++k) rows.Add(steps[k], static_cast<uint32_t>(k));
    return rows;
  }

  static void Run(const Program& program, std::span<const SequenceSlice> slices, Workspace& workspace) {
    const absl::Status ran = program.Advance(slices, workspace);
    ASSERT_TRUE(ran.ok()) << ran;
  }

  static void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t k = 0; k < actual.size(); ++k) ASSERT_NEAR(actual[k], expected[k], 1e-5) << "element " << k;
  }

  const CellPtr cell_ = RandomCell(GetParam(), 3);
  const ProgramPtr program_ = MakeOneDnnEngine()->Compile(cell_, {}).value();
  const ProgramPtr reference_ = MakeReferenceEngine()->Compile(cell_, {}).value();
};

TEST_P(LongSequencesTest, EqualTheReferenceInBoundedMemory) {
  const auto workspace = program_->NewWorkspace(), reference_workspace = reference_->NewWorkspace();
  for (const int64_t steps : kSteps) {
    SCOPED_TRACE("T " + std::to_string(steps));
    const std::vector<int64_t> lengths = {steps, (steps + 1) / 2, 1};
    Sequences got = Rows(*program_, lengths), want = Rows(*reference_, lengths);
    Run(*program_, got.All(), *workspace);
    Run(*reference_, want.All(), *reference_workspace);
    for (size_t k = 0; k < got.size(); ++k) {
      ExpectNear(got.Y(k), want.Y(k));
      ExpectNear(got.FinalState(k), want.FinalState(k));
    }
    EXPECT_LE(static_cast<const OneDnnWorkspace&>(*workspace).bytes(), kCallBytes);
  }
}

TEST_P(LongSequencesTest, EqualHoweverTheyAreCut) {
  const auto workspace = program_->NewWorkspace();
  Sequences whole = Rows(*program_, {4096});
  Run(*program_, whole.All(), *workspace);
  for (const int64_t chunk : {100, 1000, 4095}) {
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    Sequences cut = Rows(*program_, {4096});
    for (int64_t step = 0; step < 4096; step += chunk) {
      const SequenceSlice slice = cut.Slice(0, step, std::min<int64_t>(chunk, 4096 - step));
      Run(*program_, {&slice, 1}, *workspace);
    }
    ExpectNear(cut.Y(0), whole.Y(0));
    ExpectNear(cut.FinalState(0), whole.FinalState(0));
  }
}

// Few primitives, whatever the lengths: making one costs as much as many steps.
TEST_P(LongSequencesTest, NeedFewPrimitives) {
  const auto workspace = program_->NewWorkspace();
  for (int64_t steps = 1; steps <= 200; ++steps) {
    Sequences rows = Rows(*program_, {steps});
    Run(*program_, rows.All(), *workspace);
  }
  EXPECT_EQ(static_cast<const OneDnnWorkspace&>(*workspace).calls.size(), 6u);  // 1, 2, 4, ... kMostSteps
}

TEST_P(LongSequencesTest, EqualTheReferenceAtManyNumbersOfRows) {
  const auto workspace = program_->NewWorkspace(), reference_workspace = reference_->NewWorkspace();
  for (size_t rows = 1; rows <= kGroupRows + 1; rows += 5) {
    SCOPED_TRACE("rows " + std::to_string(rows));
    const std::vector<int64_t> lengths(rows, 3);
    Sequences got = Rows(*program_, lengths), want = Rows(*reference_, lengths);
    Run(*program_, got.All(), *workspace);
    Run(*reference_, want.All(), *reference_workspace);
    for (size_t k = 0; k < rows; ++k) ExpectNear(got.Y(k), want.Y(k));
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, LongSequencesTest, testing::ValuesIn(Specs()), [](const auto& test) {
  const CellSpec& spec = test.param;
  if (spec.kind == CellKind::kLstm) return "lstm";
  if (spec.kind == CellKind::kRnn) return "rnn";
  return spec.linear_before_reset ? "gru_linear_before_reset" : "gru";
});

TEST(CallPlan, RowsAreRoundedWithinTheKernelsTiles) {
  for (size_t rows = 1; rows <= kGroupRows; ++rows) {
    EXPECT_GE(RowsOfCall(rows), rows);
    EXPECT_LE(RowsOfCall(rows), rows + kMostPadding);
    EXPECT_EQ(RowsOfCall(RowsOfCall(rows)), RowsOfCall(rows));
  }
}

TEST(CallPlan, StepsFitAndComeFromASmallSet) {
  const CellSpec small = DefaultSpec(CellKind::kLstm, DataType::kFloat, 8, 8);
  const CellSpec large = DefaultSpec(CellKind::kGru, DataType::kFloat, 1 << 16, 1 << 12);
  EXPECT_EQ(StepsOfCall(small, 1, 1), 1);
  EXPECT_EQ(StepsOfCall(small, 1, 31), 16);
  EXPECT_EQ(StepsOfCall(small, 1, int64_t{1} << 40), kMostSteps);
  EXPECT_EQ(StepsOfCall(large, kGroupRows, 100), 1);
}

}  // namespace
}  // namespace rnnserve::onednn
