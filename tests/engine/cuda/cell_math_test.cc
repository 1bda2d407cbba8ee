// SPDX-License-Identifier: Apache-2.0
// The element-wise formulas at the values where they are easy to get wrong.
#include "engine/cuda/cell_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/reference/activation.h"

namespace rnnserve::cuda {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<Activation> AllActivations() {
  std::vector<Activation> all;
  for (int kind = 0; kind <= static_cast<int>(ActivationKind::kSoftplus); ++kind) {
    for (const double alpha : {-0.75, 0.0, 0.5}) {
      for (const double beta : {-0.25, 0.0, 1.5}) all.push_back({static_cast<ActivationKind>(kind), alpha, beta});
    }
  }
  return all;
}

template <typename T>
void ExpectLikeReference(double relative) {
  for (const Activation& a : AllActivations()) {
    const ActivationFn<T> function{static_cast<int>(a.kind), static_cast<T>(a.alpha), static_cast<T>(a.beta)};
    for (const double x : {0.0, -0.0, 1e-30, -1e-30, 1e-6, -1e-6, 0.5,   -0.5,   -0.75,     1.0,        -1.0,
                           2.5, -2.5, 20.0,  -20.0,  88.0, -88.0, 700.0, -700.0, kInfinity, -kInfinity, kNaN}) {
      const T in = static_cast<T>(x);
      const double got = static_cast<double>(Activate(function, in));
      const double want = Apply(a, static_cast<double>(in));
      SCOPED_TRACE(testing::Message() << "function " << static_cast<int>(a.kind) << " alpha " << a.alpha << " beta "
                                      << a.beta << " at " << x);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << got;
      } else if (std::isinf(want)) {
        EXPECT_EQ(got, want);
      } else {
        EXPECT_NEAR(got, want,
                    relative * std::fmax(std::fabs(want), static_cast<double>(std::numeric_limits<T>::min())));
      }
    }
  }
}

TEST(CellMathTest, FunctionsInFloat) { ExpectLikeReference<float>(1e-6); }
TEST(CellMathTest, FunctionsInDouble) { ExpectLikeReference<double>(1e-14); }

TEST(CellMathTest, ClampPassesNaNAndEverythingWithoutABound) {
  EXPECT_EQ(Clamp(3.0, 2.0), 2.0);
  EXPECT_EQ(Clamp(-3.0, 2.0), -2.0);
  EXPECT_EQ(Clamp(2.0, 2.0), 2.0);
  EXPECT_EQ(Clamp(-1e300, kInfinity), -1e300);
  EXPECT_EQ(Clamp(kInfinity, kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Clamp(kNaN, 2.0)));
}

TEST(CellMathTest, NoPeepholeIsNotAPeepholeOfZeros) {
  const CellMath<double> math{
      {RNNSERVE_SIGMOID, 0, 0}, {RNNSERVE_AFFINE, 1, 0}, {RNNSERVE_TANH, 0, 0}, kInfinity, false, false};
  const Peephole<double> zeros{0, 0, 0};
  EXPECT_EQ(LstmUnit<double>(math, {0, 0, 0, 1}, nullptr, kInfinity).h, 0.5);
  EXPECT_TRUE(std::isnan(LstmUnit<double>(math, {0, 0, 0, 1}, &zeros, kInfinity).h));
}

TEST(CellMathTest, CellsComeFromTheAbi) {
  rnnserve_cell cell{};
  cell.activations[0] = {0.25, 0.5, RNNSERVE_HARD_SIGMOID, 0};
  cell.activations[2] = {1.5, 0, RNNSERVE_ELU, 0};
  cell.clip = 3;
  cell.clip_cell_input = 1;
  const CellMath<float> math = MakeCellMath<float>(cell);
  EXPECT_EQ(math.f.kind, RNNSERVE_HARD_SIGMOID);
  EXPECT_EQ(math.f.alpha, 0.25f);
  EXPECT_EQ(math.f.beta, 0.5f);
  EXPECT_EQ(math.h.kind, RNNSERVE_ELU);
  EXPECT_EQ(math.h.alpha, 1.5f);
  EXPECT_EQ(math.clip, 3.0f);
  EXPECT_TRUE(math.clip_cell_input);
  EXPECT_FALSE(math.input_forget);
}

}  // namespace
}  // namespace rnnserve::cuda
