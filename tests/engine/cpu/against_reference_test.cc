// SPDX-License-Identifier: Apache-2.0
// The engine against the oracle: every kind, type, function and flag, odd sizes, ragged batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/cpu_engine.h"
#include "engine/reference/reference_engine.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBFloat16};

// y and the states are compared by the type they are given in.
struct Tolerance {
  double y, state;
};

Tolerance ToleranceOf(DataType type) {
  switch (type) {
    case DataType::kDouble:
      return {1e-12, 1e-12};
    case DataType::kFloat16:
      return {1.0 / 1024, 1e-5};
    case DataType::kBFloat16:
      return {1.0 / 128, 1e-5};
    default:
      return {1e-5, 1e-5};
  }
}

void ExpectClose(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t k = 0; k < actual.size(); ++k) {
    if (std::isnan(expected[k])) {
      ASSERT_TRUE(std::isnan(actual[k])) << "element " << k;
    } else if (std::isinf(expected[k])) {
      ASSERT_EQ(actual[k], expected[k]) << "element " << k;
    } else {
      ASSERT_NEAR(actual[k], expected[k], tolerance * (1 + std::fabs(expected[k]))) << "element " << k;
    }
  }
}

Sequences RunOn(const Program& program, const CellSpec& spec, const std::vector<int64_t>& steps) {
  Sequences sequences(program, spec);
  for (size_t k = 0; k < steps.size(); ++k) sequences.Add(steps[k], static_cast<uint32_t>(k));
  const auto workspace = program.NewWorkspace();
  EXPECT_TRUE(program.Advance(sequences.All(), *workspace).ok());
  return sequences;
}

void ExpectAgrees(const CellSpec& spec, const std::vector<int64_t>& steps) {
  const CellPtr cell = RandomCell(spec, 17);
  const ProgramPtr actual_program = MakeCpuEngine()->Compile(cell, {}).value();
  const ProgramPtr expected_program = MakeReferenceEngine()->Compile(cell, {}).value();
  const Sequences actual = RunOn(*actual_program, spec, steps);
  const Sequences expected = RunOn(*expected_program, spec, steps);
  const Tolerance tolerance = ToleranceOf(spec.data_type);
  for (size_t k = 0; k < steps.size(); ++k) {
    SCOPED_TRACE("row " + std::to_string(k));
    ExpectClose(actual.Y(k), expected.Y(k), tolerance.y);
    ExpectClose(actual.FinalState(k), expected.FinalState(k), tolerance.state);
  }
}

TEST(CpuAgainstReferenceTest, SizesAndRaggedLengths) {
  for (const DataType type : kTypes) {
    for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
      for (const int64_t units : {1, 7, 16, 17, 33, 64}) {
        for (const int64_t inputs : {0, 1, 40}) {
          SCOPED_TRACE(std::string(DataTypeName(type)) + " kind " + std::to_string(static_cast<int>(kind)) + " H " +
                       std::to_string(units) + " I " + std::to_string(inputs));
          ExpectAgrees(DefaultSpec(kind, type, inputs, units), {3, 1, 12, 12, 5, 2, 9});
        }
      }
    }
  }
}

// Where the CPU has tiles, products of 8 rows take them, unless a number of a row or of the weights needs
// multiply-adds.
TEST(CpuAgainstReferenceTest, NumbersThatTilesTakeAndThatTheyDoNot) {
  CellSpec linear = DefaultSpec(CellKind::kGru, DataType::kFloat, 40, 70);
  linear.linear_before_reset = true;
  const CellSpec specs[] = {linear, DefaultSpec(CellKind::kGru, DataType::kFloat, 40, 70),
                            DefaultSpec(CellKind::kLstm, DataType::kFloat, 40, 70),
                            DefaultSpec(CellKind::kRnn, DataType::kFloat, 40, 70)};
  const std::vector<std::byte> infinity = Encode(DataType::kFloat, {std::numeric_limits<double>::infinity()});
  const auto run = [&](const Program& program, const CellSpec& spec, size_t rows, int64_t steps) {
    Sequences sequences(program, spec);
    for (size_t row = 0; row < rows; ++row) sequences.Add(steps, static_cast<uint32_t>(row));
    // Among others that have been made narrow already. A sequence's bytes begin one past an aligned address.
    const auto at = static_cast<std::ptrdiff_t>(1 + steps / 2 * 40 * static_cast<int64_t>(sizeof(float)));
    if (rows == 9 || rows == 20) std::copy(infinity.begin(), infinity.end(), sequences.at(7).x.begin() + at);
    const auto workspace = program.NewWorkspace();
    EXPECT_TRUE(program.Advance(sequences.All(), *workspace).ok());
    return sequences;
  };
  for (const CellSpec& spec : specs) {
    for (const float weight : {0.1F, 0x1p56F}) {
      std::mt19937 random(17);
      CellWeights<float> weights = RandomWeights<float>(spec, random);
      weights.w[3] = weight;
      const auto cell = std::make_shared<Cell>(spec, std::move(weights));
      const ProgramPtr actual = MakeCpuEngine()->Compile(cell, {}).value();
      const ProgramPtr expected = MakeReferenceEngine()->Compile(cell, {}).value();
      for (const size_t rows : {7, 8, 9, 15, 16, 20, 32, 40}) {
        for (const int64_t steps : {1, 3}) {
          SCOPED_TRACE("kind " + std::to_string(static_cast<int>(spec.kind)) + ", rows " + std::to_string(rows));
          const Sequences got = run(*actual, spec, rows, steps), want = run(*expected, spec, rows, steps);
          for (size_t row = 0; row < rows; ++row) ExpectClose(got.Y(row), want.Y(row), 1e-5);
        }
      }
    }
  }
}

TEST(CpuAgainstReferenceTest, LongSequences) {
  for (const DataType type : kTypes) {
    for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
      ExpectAgrees(DefaultSpec(kind, type, 19, 48), {100, 64, 100});
    }
  }
}

TEST(CpuAgainstReferenceTest, ManyRows) {
  std::vector<int64_t> steps;
  for (int64_t row = 0; row < 300; ++row) steps.push_back(1 + row * 5 % 11);
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
    ExpectAgrees(DefaultSpec(kind, DataType::kFloat, 9, 12), steps);
  }
}

// Products take rows in blocks of several sizes; units and inputs fill no vector.
TEST(CpuAgainstReferenceTest, AnyNumberOfRows) {
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
    std::vector<int64_t> steps;
    for (int64_t row = 0; row < 70; ++row) {
      steps.push_back(1 + row * 5 % 7);
      SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + ", " + std::to_string(row + 1) + " rows");
      ExpectAgrees(DefaultSpec(kind, DataType::kFloat, 17, 67), steps);
    }
  }
}

TEST(CpuAgainstReferenceTest, WideLayers) {
  ExpectAgrees(DefaultSpec(CellKind::kLstm, DataType::kFloat, 300, 260), {10, 3});
  ExpectAgrees(DefaultSpec(CellKind::kGru, DataType::kDouble, 130, 200), {10, 3});
}

struct NamedActivation {
  std::string name;
  Activation activation;
};

std::vector<NamedActivation> Activations() {
  return {
      {"Relu", {ActivationKind::kRelu, 0, 0}},
      {"Tanh", {ActivationKind::kTanh, 0, 0}},
      {"Sigmoid", {ActivationKind::kSigmoid, 0, 0}},
      {"Affine", {ActivationKind::kAffine, 0.5, 0.25}},
      {"LeakyRelu", {ActivationKind::kLeakyRelu, 0.125, 0}},
      // Below every value drawn here: a float run and a double run may fall on different sides of the step.
      {"ThresholdedRelu", {ActivationKind::kThresholdedRelu, -50, 0}},
      {"ScaledTanh", {ActivationKind::kScaledTanh, 1.5, 0.5}},
      {"HardSigmoid", {ActivationKind::kHardSigmoid, 0.25, 0.5}},
      {"Elu", {ActivationKind::kElu, 0.75, 0}},
      {"Softsign", {ActivationKind::kSoftsign, 0, 0}},
      {"Softplus", {ActivationKind::kSoftplus, 0, 0}},
  };
}

class CpuFunctionsTest : public testing::TestWithParam<NamedActivation> {};

TEST_P(CpuFunctionsTest, InEveryPlace) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
      CellSpec spec = DefaultSpec(kind, type, 5, 17);
      for (size_t place = 0; place < (kind == CellKind::kLstm ? 3 : kind == CellKind::kGru ? 2 : 1); ++place) {
        SCOPED_TRACE("place " + std::to_string(place) + " of kind " + std::to_string(static_cast<int>(kind)));
        CellSpec changed = spec;
        changed.activations[place] = GetParam().activation;
        ExpectAgrees(changed, {6, 3, 1});
        changed.clip = 0.25;
        ExpectAgrees(changed, {6, 3, 1});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, CpuFunctionsTest, testing::ValuesIn(Activations()),
                         [](const auto& test) { return test.param.name; });

TEST(CpuAgainstReferenceTest, LstmFlags) {
  for (const DataType type : kTypes) {
    for (int flags = 0; flags < 16; ++flags) {
      CellSpec spec = DefaultSpec(CellKind::kLstm, type, 6, 19);
      spec.has_peephole = (flags & 1) != 0;
      spec.input_forget = (flags & 2) != 0;
      if ((flags & 4) != 0) spec.clip = 0.2;
      spec.clip_cell_input = (flags & 4) != 0 && (flags & 8) != 0;
      SCOPED_TRACE("flags " + std::to_string(flags));
      ExpectAgrees(spec, {20, 7, 1});
    }
  }
}

TEST(CpuAgainstReferenceTest, GruForms) {
  for (const DataType type : kTypes) {
    for (const bool linear_before_reset : {false, true}) {
      for (const double clip : {std::numeric_limits<double>::infinity(), 0.2}) {
        CellSpec spec = DefaultSpec(CellKind::kGru, type, 6, 19);
        spec.linear_before_reset = linear_before_reset;
        spec.clip = clip;
        SCOPED_TRACE("linear_before_reset " + std::to_string(linear_before_reset));
        ExpectAgrees(spec, {20, 7, 1});
      }
    }
  }
}

// A weight that is NaN in the forget blocks must not be read with input_forget.
TEST(CpuAgainstReferenceTest, InputForgetIgnoresTheForgetBlocks) {
  CellSpec spec = DefaultSpec(CellKind::kLstm, DataType::kFloat, 2, 3);
  spec.input_forget = true;
  std::mt19937 random(1);
  CellWeights<float> weights = RandomWeights<float>(spec, random);
  for (size_t k = 2 * 3 * 2; k < 3 * 3 * 2; ++k) weights.w[k] = std::numeric_limits<float>::quiet_NaN();
  const ProgramPtr program = MakeCpuEngine()->Compile(std::make_shared<Cell>(spec, weights), {}).value();
  const Sequences sequences = RunOn(*program, spec, {4});
  for (const double value : sequences.Y(0)) EXPECT_FALSE(std::isnan(value));
}

TEST(CpuAgainstReferenceTest, NaNAndInfinityStayInTheirRow) {
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
    const CellSpec spec = DefaultSpec(kind, DataType::kFloat, 5, 9);
    const ProgramPtr program = MakeCpuEngine()->Compile(RandomCell(spec, 2), {}).value();
    const auto workspace = program->NewWorkspace();
    const auto run = [&](bool dirty) {
      Sequences sequences(*program, spec);
      for (uint32_t row = 0; row < 8; ++row) sequences.Add(6, row);
      const std::vector<std::byte> nan = Encode(DataType::kFloat, {std::numeric_limits<double>::quiet_NaN()});
      const std::vector<std::byte> infinity = Encode(DataType::kFloat, {std::numeric_limits<double>::infinity()});
      if (dirty) std::copy(nan.begin(), nan.end(), sequences.at(2).x.begin() + 1);
      if (dirty) std::copy(infinity.begin(), infinity.end(), sequences.at(5).x.begin() + 1);
      EXPECT_TRUE(program->Advance(sequences.All(), *workspace).ok());
      return sequences;
    };
    const Sequences clean = run(false), dirty = run(true);
    for (size_t row = 0; row < 8; ++row) {
      if (row == 2) {
        for (const double value : dirty.Y(row)) EXPECT_TRUE(std::isnan(value));
      } else if (row != 5) {
        EXPECT_EQ(dirty.Results(row), clean.Results(row)) << row;
      }
    }
  }
}

}  // namespace
}  // namespace rnnserve::cpu
