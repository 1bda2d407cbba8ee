// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/cpu/aligned_buffer.h"

namespace rnnserve::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Case {
  std::string name;
  Activation activation;
  std::function<long double(long double)> exact;
};

// Alphas and betas that float32 holds exactly.
std::vector<Case> Cases() {
  using Number = long double;
  return {
      {"Relu", {ActivationKind::kRelu, 0, 0}, [](Number x) { return x < 0 ? 0 : x; }},
      {"Tanh", {ActivationKind::kTanh, 0, 0}, [](Number x) { return std::tanh(x); }},
      {"Sigmoid", {ActivationKind::kSigmoid, 0, 0}, [](Number x) { return 1 / (1 + std::exp(-x)); }},
      {"Affine", {ActivationKind::kAffine, 1.5, -0.25}, [](Number x) { return 1.5L * x - 0.25L; }},
      {"LeakyRelu", {ActivationKind::kLeakyRelu, 0.125, 0}, [](Number x) { return x < 0 ? 0.125L * x : x; }},
      {"ThresholdedRelu", {ActivationKind::kThresholdedRelu, 0.5, 0}, [](Number x) { return x < 0.5L ? 0 : x; }},
      {"ScaledTanh", {ActivationKind::kScaledTanh, 1.5, 0.5}, [](Number x) { return 1.5L * std::tanh(0.5L * x); }},
      {"HardSigmoid",
       {ActivationKind::kHardSigmoid, 0.25, 0.5},
       [](Number x) {
         const Number y = 0.25L * x + 0.5L;
         return y < 0 ? 0 : y > 1 ? 1 : y;
       }},
      {"Elu", {ActivationKind::kElu, 1.5, 0}, [](Number x) { return x < 0 ? 1.5L * std::expm1(x) : x; }},
      {"Softsign", {ActivationKind::kSoftsign, 0, 0}, [](Number x) { return x / (1 + std::fabs(x)); }},
      {"Softplus",
       {ActivationKind::kSoftplus, 0, 0},
       [](Number x) { return std::fmax(x, 0.0L) + std::log1p(std::exp(-std::fabs(x))); }},
  };
}

template <typename T>
std::vector<T> Points() {
  std::vector<T> points = {0,
                           static_cast<T>(-0.0),
                           static_cast<T>(0.5),
                           std::numeric_limits<T>::denorm_min(),
                           static_cast<T>(1e-30),
                           static_cast<T>(-1e-30)};
  for (double x = 1e-6; x < 1e4; x *= 1.37) {
    points.push_back(static_cast<T>(x));
    points.push_back(static_cast<T>(-x));
  }
  for (int k = -400; k <= 400; ++k) points.push_back(static_cast<T>(k) / 16);
  return points;
}

template <typename T>
std::vector<T> Applied(const Activation& activation, double clip, const std::vector<T>& points) {
  AlignedBuffer<T> values(PadToLine<T>(points.size()));
  std::fill_n(values.data(), values.size(), T{0});
  std::copy(points.begin(), points.end(), values.data());
  ClippedActivation<T>(activation, clip).Apply(values.data(), values.size());
  return std::vector<T>(values.data(), values.data() + points.size());
}

template <typename T>
class ActivationsTest : public testing::Test {};
using ComputeTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(ActivationsTest, ComputeTypes);

TYPED_TEST(ActivationsTest, MatchExactFunctions) {
  const auto epsilon = static_cast<double>(std::numeric_limits<TypeParam>::epsilon());
  const auto least = static_cast<double>(std::numeric_limits<TypeParam>::min());
  const std::vector<TypeParam> points = Points<TypeParam>();
  for (const Case& test : Cases()) {
    const std::vector<TypeParam> results = Applied(test.activation, kInfinity, points);
    for (size_t k = 0; k < points.size(); ++k) {
      const auto exact = static_cast<double>(test.exact(points[k]));
      // Where terms of opposite sign cancel (Affine, HardSigmoid) the error is that of the terms.
      const bool cancels = test.name == "Affine" || test.name == "HardSigmoid";
      const double scale = std::fabs(exact) + (cancels ? 1 : 0);
      EXPECT_NEAR(static_cast<double>(results[k]), exact, 8 * epsilon * scale + least)
          << test.name << "(" << points[k] << ")";
    }
  }
}

TYPED_TEST(ActivationsTest, NaNStaysNaNAndAlone) {
  for (const Case& test : Cases()) {
    for (const double clip : {kInfinity, 2.0}) {
      const auto results = Applied<TypeParam>(test.activation, clip, {1, static_cast<TypeParam>(kNaN), 1});
      EXPECT_TRUE(std::isnan(results[1])) << test.name << " clip " << clip;
      EXPECT_EQ(results[0], results[2]) << test.name;
      EXPECT_FALSE(std::isnan(results[0])) << test.name;
    }
  }
}

TYPED_TEST(ActivationsTest, InfinitiesReachTheLimits) {
  const auto infinity = std::numeric_limits<TypeParam>::infinity();
  const auto at = [&](ActivationKind kind, double alpha, double beta) {
    return Applied<TypeParam>({kind, alpha, beta}, kInfinity, {-infinity, infinity});
  };
  using Pair = std::vector<TypeParam>;
  EXPECT_EQ(at(ActivationKind::kTanh, 0, 0), (Pair{-1, 1}));
  EXPECT_EQ(at(ActivationKind::kSigmoid, 0, 0), (Pair{0, 1}));
  EXPECT_EQ(at(ActivationKind::kRelu, 0, 0), (Pair{0, infinity}));
  EXPECT_EQ(at(ActivationKind::kElu, 2, 0), (Pair{-2, infinity}));
  EXPECT_EQ(at(ActivationKind::kSoftplus, 0, 0), (Pair{0, infinity}));
  EXPECT_EQ(at(ActivationKind::kHardSigmoid, 0.25, 0.5), (Pair{0, 1}));
  EXPECT_EQ(at(ActivationKind::kThresholdedRelu, 1, 0), (Pair{0, infinity}));
}

TYPED_TEST(ActivationsTest, ThresholdIsInside) {
  EXPECT_EQ(Applied<TypeParam>({ActivationKind::kThresholdedRelu, 0.5, 0}, kInfinity, {0.5})[0], 0.5);
}

TYPED_TEST(ActivationsTest, ClipBoundsTheInput) {
  const auto infinity = std::numeric_limits<TypeParam>::infinity();
  const std::vector<TypeParam> points = {-infinity, -3, -2, -1, 0, 1, 2, 3, infinity};
  const std::vector<TypeParam> clipped = {-2, -2, -2, -1, 0, 1, 2, 2, 2};
  EXPECT_EQ(Applied<TypeParam>({ActivationKind::kAffine, 1, 0}, 2.0, points), clipped);
}

}  // namespace
}  // namespace rnnserve::cpu
