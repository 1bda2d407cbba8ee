// SPDX-License-Identifier: Apache-2.0
// Every instruction set that this machine has and the engine was compiled for, not only the best one.
#include "hwy/targets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/cpu/cpu_engine.h"
#include "hwy/highway.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

// While it lives, dispatch goes to one target.
class OnlyTarget {
 public:
  explicit OnlyTarget(int64_t target) { Use(target); }
  ~OnlyTarget() { Use(0); }
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;

 private:
  static void Use(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

Sequences RunAll(const Program& program, const CellSpec& spec, bool together) {
  Sequences sequences(program, spec);
  for (uint32_t row = 0; row < 13; ++row) sequences.Add(1 + row % 5 * 3, row);
  const auto workspace = program.NewWorkspace();
  if (together) {
    EXPECT_TRUE(program.Advance(sequences.All(), *workspace).ok());
    return sequences;
  }
  for (size_t k = 0; k < sequences.size(); ++k) {
    const SequenceSlice slice = sequences.Slice(k, 0, sequences.steps(k));
    EXPECT_TRUE(program.Advance({&slice, 1}, *workspace).ok());
  }
  return sequences;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t k = 0; k < actual.size(); ++k) ASSERT_NEAR(actual[k], expected[k], tolerance) << "element " << k;
}

// Everything that has vector code of its own, at sizes with full and narrow panels.
std::vector<CellSpec> Specs() {
  CellSpec peephole = DefaultSpec(CellKind::kLstm, DataType::kFloat, 7, 40);
  peephole.has_peephole = true;
  peephole.clip = 0.5;
  CellSpec functions = DefaultSpec(CellKind::kLstm, DataType::kDouble, 7, 9);
  functions.activations = {Activation{ActivationKind::kHardSigmoid, 0.25, 0.5},
                           {ActivationKind::kElu, 0.5, 0},
                           {ActivationKind::kSoftplus, 0, 0}};
  CellSpec before_reset = DefaultSpec(CellKind::kGru, DataType::kFloat16, 9, 33);
  before_reset.linear_before_reset = true;
  return {DefaultSpec(CellKind::kLstm, DataType::kFloat, 20, 33),
          peephole,
          functions,
          DefaultSpec(CellKind::kGru, DataType::kDouble, 5, 19),
          before_reset,
          DefaultSpec(CellKind::kRnn, DataType::kBFloat16, 3, 70)};
}

double Tolerance(DataType type) {
  if (type == DataType::kDouble) return 1e-12;
  return type == DataType::kFloat ? 1e-5 : type == DataType::kFloat16 ? 2e-3 : 2e-2;
}

void ExpectTargetsAgree(const CellSpec& spec, WeightType weights) {
  const EngineOptions options = {.allow_reduced_precision = true, .deterministic = true, .weights = weights};
  const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  const CellPtr cell = RandomCell(spec, 23);
  const ProgramPtr best = MakeCpuEngine()->Compile(cell, options).value();
  const Sequences expected = RunAll(*best, spec, true);
  for (int64_t left = all; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    SCOPED_TRACE(std::string(hwy::TargetName(target)) + ", kind " + std::to_string(static_cast<int>(spec.kind)) +
                 ", weights " + std::string(WeightTypeName(weights)));
    const OnlyTarget only(target);
    const ProgramPtr program = MakeCpuEngine()->Compile(cell, options).value();
    const Sequences together = RunAll(*program, spec, true), alone = RunAll(*program, spec, false);
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(together.Results(k), alone.Results(k)) << "row " << k;
      ExpectNear(together.Y(k), expected.Y(k), Tolerance(spec.data_type));
    }
  }
}

TEST(TargetsTest, AgreeAndAreBitExactEach) {
  for (const CellSpec& spec : Specs()) ExpectTargetsAgree(spec, WeightType::kAsGiven);
}

TEST(TargetsTest, AgreeOnNarrowWeights) {
  for (const WeightType weights : kNarrowWeights) {
    for (const CellSpec& spec : Specs()) {
      if (spec.data_type != DataType::kDouble) ExpectTargetsAgree(spec, weights);
    }
  }
}

}  // namespace
}  // namespace rnnserve::cpu
