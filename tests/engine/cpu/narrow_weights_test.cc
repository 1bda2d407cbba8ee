// SPDX-License-Identifier: Apache-2.0
// Programs with narrow weights: they compute what the reference does with the rounded weights, and no more is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/cpu/cpu_engine.h"
#include "engine/cpu/dot_product.h"
#include "engine/reference/reference_engine.h"
#include "tests/engine/cpu/random_sequences.h"
#include "tests/engine/support/rounded_weights.h"

namespace rnnserve::cpu {
namespace {

using testing::HasSubstr;

EngineOptions With(WeightType weights) { return {.allow_reduced_precision = true, .weights = weights}; }

CellWeights<float> Weights(const CellSpec& spec, uint32_t seed) {
  std::mt19937 random(seed);
  return RandomWeights<float>(spec, random);
}

CellPtr Rounded(const CellSpec& spec, CellWeights<float> weights, WeightType type) {
  RoundWeights(type, spec, weights);
  return std::make_shared<Cell>(spec, std::move(weights));
}

Sequences RunRagged(const Program& program, const CellSpec& spec, size_t rows) {
  Sequences sequences(program, spec);
  for (size_t row = 0; row < rows; ++row) {
    sequences.Add(1 + static_cast<int64_t>(row * 5 % 7), static_cast<uint32_t>(row));
  }
  const auto workspace = program.NewWorkspace();
  EXPECT_TRUE(program.Advance(sequences.All(), *workspace).ok());
  return sequences;
}

double LargestError(const Sequences& got, const Sequences& want) {
  double largest = 0;
  for (size_t row = 0; row < got.size(); ++row) {
    const std::vector<double> a = got.Y(row), b = want.Y(row);
    for (size_t k = 0; k < a.size(); ++k) largest = std::max(largest, std::fabs(a[k] - b[k]));
  }
  return largest;
}

constexpr char kForms[][24] = {"lstm", "gru", "gru_linear_before_reset", "rnn"};

class NarrowWeightsTest : public testing::TestWithParam<std::tuple<WeightType, int>> {
 protected:
  WeightType weights() const { return std::get<0>(GetParam()); }

  CellSpec Spec(int64_t inputs, int64_t units) const {
    constexpr CellKind kKinds[] = {CellKind::kLstm, CellKind::kGru, CellKind::kGru, CellKind::kRnn};
    const int form = std::get<1>(GetParam());
    CellSpec spec = DefaultSpec(kKinds[form], DataType::kFloat, inputs, units);
    spec.linear_before_reset = form == 2;
    return spec;
  }

  ProgramPtr Compile(CellPtr cell) const { return MakeCpuEngine()->Compile(std::move(cell), With(weights())).value(); }

  // Against the weights that it keeps, where int8 rounds rows to 16 bits as well and a weight in the middle between two
  // numbers may go to either, and bfloat16 rounds rows to 8 bits where the CPU multiplies such numbers; and against
  // those that it was given: weights of up to 1 and sums of more than a hundred of them.
  double ErrorOfRows() const {
    if (weights() == WeightType::kInt8) return 5e-4;
    return HasDotProduct(weights()) ? 5e-3 : 1e-5;
  }

  // With each of these numbers of rows. A row's result does not depend on the others, so the references run once.
  void ExpectNear(const CellSpec& spec, size_t least_rows, size_t most_rows) {
    const CellWeights<float> given = Weights(spec, 31);
    const auto cell = std::make_shared<Cell>(spec, given);
    const ProgramPtr kept = MakeReferenceEngine()->Compile(Rounded(spec, given, weights()), {}).value();
    const ProgramPtr exact = MakeReferenceEngine()->Compile(cell, {}).value();
    const Sequences of_kept = RunRagged(*kept, spec, most_rows), of_exact = RunRagged(*exact, spec, most_rows);
    const ProgramPtr program = Compile(cell);
    for (size_t rows = least_rows; rows <= most_rows; ++rows) {
      SCOPED_TRACE(std::to_string(rows) + " rows");
      const Sequences got = RunRagged(*program, spec, rows);
      EXPECT_LE(LargestError(got, of_kept), ErrorOfRows());
      EXPECT_LE(LargestError(got, of_exact), weights() == WeightType::kFloat16 ? 3e-3 : 4e-2);
    }
  }
};

TEST_P(NarrowWeightsTest, AreTheRoundedOnes) {
  for (const int64_t units : {1, 7, 16, 33, 65}) {
    for (const int64_t inputs : {0, 1, 2, 19, 131}) {
      SCOPED_TRACE("H " + std::to_string(units) + " I " + std::to_string(inputs));
      ExpectNear(Spec(inputs, units), 5, 5);
    }
  }
}

TEST_P(NarrowWeightsTest, AnyNumberOfRows) { ExpectNear(Spec(17, 67), 1, 70); }

TEST_P(NarrowWeightsTest, WideLayers) {
  ExpectNear(Spec(300, 530), 3, 3);
  ExpectNear(Spec(300, 290), 18, 18);
}

// Other functions go through memory of their own.
TEST_P(NarrowWeightsTest, WideLayersWithOtherFunctions) {
  CellSpec spec = Spec(40, 530);
  spec.clip = 3;
  spec.has_peephole = spec.kind == CellKind::kLstm;
  for (Activation& activation : spec.activations) {
    if (activation.kind == ActivationKind::kTanh) activation.kind = ActivationKind::kSoftsign;
  }
  ExpectNear(spec, 7, 7);
}

TEST_P(NarrowWeightsTest, PackedBytesAreThoseKept) {
  const CellSpec spec = Spec(128, 256);
  const CellPtr cell = RandomCell(spec, 1);
  const int64_t elements = GateCount(spec.kind) * 256 * (128 + 256);
  const int64_t given = MakeCpuEngine()->Compile(cell, {.deterministic = true}).value()->packed_bytes();
  const int64_t rest = given - 4 * elements;
  const int64_t scales = weights() == WeightType::kInt8 ? 2 * 4 * GateCount(spec.kind) * 256 : 0;
  EXPECT_EQ(Compile(cell)->packed_bytes(), elements * (weights() == WeightType::kInt8 ? 1 : 2) + scales + rest);
}

// Columns of zeros, and of numbers so small that no scale is left.
TEST_P(NarrowWeightsTest, ZeroAndTinyColumns) {
  const CellSpec spec = Spec(9, 20);
  CellWeights<float> given = Weights(spec, 3);
  std::fill_n(given.w.begin() + 2 * 9, 9, 0.0F);
  std::fill_n(given.r.begin() + 5 * 20, 20, std::numeric_limits<float>::denorm_min());
  std::fill_n(given.r.begin() + 7 * 20, 20, -1e-38F);
  const auto cell = std::make_shared<Cell>(spec, given);
  const ProgramPtr exact = MakeReferenceEngine()->Compile(cell, {}).value();
  EXPECT_LE(LargestError(RunRagged(*Compile(cell), spec, 4), RunRagged(*exact, spec, 4)), 1e-2);
}

TEST_P(NarrowWeightsTest, NaNAndInfinityOfXStayInTheirRow) {
  const CellSpec spec = Spec(9, 33);
  const ProgramPtr program = Compile(RandomCell(spec, 5));
  const Sequences clean = RunRagged(*program, spec, 8);
  Sequences dirty(*program, spec);
  for (uint32_t row = 0; row < 8; ++row) dirty.Add(clean.steps(row), row);
  const auto put = [&](size_t row, double value) {
    const std::vector<std::byte> bytes = Encode(DataType::kFloat, {value});
    std::copy(bytes.begin(), bytes.end(), dirty.at(row).x.begin() + 1);
  };
  put(2, std::numeric_limits<double>::quiet_NaN());
  put(5, std::numeric_limits<double>::infinity());
  const auto workspace = program->NewWorkspace();
  ASSERT_TRUE(program->Advance(dirty.All(), *workspace).ok());
  for (size_t row = 0; row < 8; ++row) {
    if (row == 2) {
      for (const double value : dirty.Y(row)) EXPECT_TRUE(std::isnan(value));
    } else if (row != 5) {
      EXPECT_EQ(dirty.Results(row), clean.Results(row)) << row;
    }
  }
}

TEST_P(NarrowWeightsTest, RefusesWeightsThatItCannotKeep) {
  const CellSpec spec = Spec(3, 4);
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::max()}) {
    for (const bool in_w : {true, false}) {
      CellWeights<float> given = Weights(spec, 3);
      (in_w ? given.w : given.r)[2] = value;
      const auto compiled = MakeCpuEngine()->Compile(std::make_shared<Cell>(spec, given), With(weights()));
      ASSERT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(compiled.status().message()), HasSubstr(in_w ? "W has NaN" : "R has NaN"));
      EXPECT_THAT(std::string(compiled.status().message()), HasSubstr(WeightTypeName(weights())));
    }
  }
  CellWeights<float> given = Weights(spec, 3);
  given.r[2] = 65505;  // rounds to the largest float16
  EXPECT_TRUE(MakeCpuEngine()->Compile(std::make_shared<Cell>(spec, given), With(weights())).ok());
}

INSTANTIATE_TEST_SUITE_P(Kinds, NarrowWeightsTest,
                         testing::Combine(testing::ValuesIn(kNarrowWeights), testing::Range(0, 4)),
                         [](const auto& test) {
                           return std::string(kForms[std::get<1>(test.param)]) + "_" +
                                  std::string(WeightTypeName(std::get<0>(test.param)));
                         });

TEST(NarrowWeightsRefusedTest, ByOtherEnginesAndForFloat64) {
  for (const WeightType weights : kNarrowWeights) {
    const CellSpec spec = DefaultSpec(CellKind::kLstm, DataType::kFloat, 4, 4);
    const std::unique_ptr<Engine> reference = MakeReferenceEngine();
    const absl::Status refused = reference->Supports(spec, With(weights));
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(reference->Compile(RandomCell(spec, 1), With(weights)).status(), refused);
    EXPECT_EQ(std::string(refused.message()),
              "weight_type is " + std::string(WeightTypeName(weights)) + ", and it keeps weights as given only");
    const absl::Status status =
        MakeCpuEngine()->Supports(DefaultSpec(CellKind::kGru, DataType::kDouble, 4, 4), With(weights));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), HasSubstr("float64"));
  }
}

}  // namespace
}  // namespace rnnserve::cpu
