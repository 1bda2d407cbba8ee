// SPDX-License-Identifier: Apache-2.0
// The functions of float32 gates over all floats: a sample of one in 16,381 bit patterns, or one in as
// many as RNNSERVE_FLOAT_STEP says: 1 for all (tests/campaigns/test_gate_functions.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "engine/cpu/activations.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/gru_gates.h"
#include "engine/cpu/lstm_gates.h"

namespace rnnserve::cpu {
namespace {

constexpr size_t kBlocks = 64, kUnits = kBlocks * kLine<float>;
constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

uint64_t Step() {
  const char* const text = std::getenv("RNNSERVE_FLOAT_STEP");
  return text == nullptr ? 16381 : std::max<uint64_t>(1, std::strtoull(text, nullptr, 10));
}

// The next kUnits bit patterns, from 0 to the NaN with all bits set.
class Patterns {
 public:
  bool Next(AlignedBuffer<float>& points) {
    if (next_ >= uint64_t{1} << 32) return false;
    for (size_t k = 0; k < kUnits; ++k, next_ += step_) {
      points[k] = std::bit_cast<float>(static_cast<uint32_t>(std::min(next_, uint64_t{0xffffffff})));
    }
    return true;
  }

 private:
  uint64_t next_ = 0;
  uint64_t step_ = Step();
};

// The largest |result - exact| / allowance(exact), and where.
struct Worst {
  double error = 0;
  float at = 0;

  void Meet(float x, float result, double exact, double allowance) {
    const bool same = std::isnan(x) ? std::isnan(result) : std::fabs(result - exact) <= allowance;
    if (!same) ++wrong;
    const double relative = std::isnan(x) ? 0 : std::fabs(result - exact) / allowance;
    if (relative > error) std::tie(error, at) = std::pair(relative, x);
  }
  std::string Tell() const {
    return std::to_string(wrong) + " beyond the allowance; worst " + std::to_string(error) + " of it, at " +
           std::to_string(at);
  }
  int64_t wrong = 0;
};

class GateFunctionsTest : public testing::Test {
 protected:
  // Each line of each block holds the points of the block.
  void Spread(size_t lines) {
    inputs_.Grow(lines * kUnits);
    for (size_t k = 0; k < lines * kUnits; ++k) {
      inputs_[k] = points_[k / (lines * kLine<float>)*kLine<float> + k % kLine<float>];
    }
    state_.Grow(lines * kUnits);
    std::fill_n(state_.data(), lines * kUnits, 0.0f);
  }

  void Apply(ActivationKind kind, double (*exact)(double)) {
    const ClippedActivation<float> stage({kind, 0, 0}, std::numeric_limits<double>::infinity());
    Worst worst;
    for (Patterns patterns; patterns.Next(points_);) {
      std::copy_n(points_.data(), kUnits, h_.data());
      stage.Apply(h_.data(), kUnits);
      for (size_t k = 0; k < kUnits; ++k) {
        const double value = exact(points_[k]);
        worst.Meet(points_[k], h_[k], value, 3 * kEpsilon * std::fabs(value) + std::numeric_limits<float>::min());
      }
    }
    EXPECT_EQ(worst.wrong, 0) << worst.Tell();
    RecordProperty("worst", worst.Tell());
  }

  AlignedBuffer<float> points_{kUnits}, c_{kUnits}, h_{kUnits};
  AlignedBuffer<float> inputs_, state_;
};

TEST_F(GateFunctionsTest, Sigmoid) { Apply(ActivationKind::kSigmoid, &rnnserve::cpu::Sigmoid); }
TEST_F(GateFunctionsTest, Tanh) {
  Apply(ActivationKind::kTanh, [](double x) { return std::tanh(x); });
}

// All four sums are x, c was 0.5.
TEST_F(GateFunctionsTest, Lstm) {
  const LstmGates<float> gates = FindLstmGates<float>();
  Worst cell, output;
  for (Patterns patterns; patterns.Next(points_);) {
    Spread(4);
    std::fill_n(c_.data(), kUnits, 0.5f);
    gates.all({1, {c_.data(), 0}, {h_.data(), 0}}, kBlocks, {inputs_.data(), 0}, {state_.data(), 0});
    for (size_t k = 0; k < kUnits; ++k) {
      const double x = points_[k], s = rnnserve::cpu::Sigmoid(x), c = s * 0.5 + s * std::tanh(x);
      cell.Meet(points_[k], c_[k], c, 3 * kEpsilon);
      output.Meet(points_[k], h_[k], s * std::tanh(c), 3 * kEpsilon);
    }
  }
  EXPECT_EQ(cell.wrong, 0) << cell.Tell();
  EXPECT_EQ(output.wrong, 0) << output.Tell();
  RecordProperty("worst", cell.Tell() + "; " + output.Tell());
}

// All inputs are x, R h is 0, the inner bias 0.25, h was 0.5.
TEST_F(GateFunctionsTest, Gru) {
  const GruGates<float> gates = FindGruGates<float>();
  AlignedBuffer<float> bias(kUnits);
  std::fill_n(bias.data(), kUnits, 0.25f);
  std::fill_n(c_.data(), kUnits, 0.5f);
  Worst worst;
  for (Patterns patterns; patterns.Next(points_);) {
    Spread(3);
    gates.all({1, {c_.data(), 0}, {h_.data(), 0}}, kBlocks, {inputs_.data(), 0}, {state_.data(), 0}, bias.data());
    for (size_t k = 0; k < kUnits; ++k) {
      const double x = points_[k], s = rnnserve::cpu::Sigmoid(x);
      worst.Meet(points_[k], h_[k], (1 - s) * std::tanh(x + s * 0.25) + s * 0.5, 3 * kEpsilon);
    }
  }
  EXPECT_EQ(worst.wrong, 0) << worst.Tell();
  RecordProperty("worst", worst.Tell());
}

}  // namespace
}  // namespace rnnserve::cpu
