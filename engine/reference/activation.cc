// SPDX-License-Identifier: Apache-2.0
#include "engine/reference/activation.h"

#include <cmath>

namespace rnnserve {
namespace {

double Sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

// x/(1 + |x|) would be inf/inf.
double Softsign(double x) { return std::isinf(x) ? std::copysign(1.0, x) : x / (1 + std::fabs(x)); }

double HardSigmoid(double v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

}  // namespace

// Comparisons are written so that NaN falls through to the branch that returns it.
double Apply(const Activation& function, double x) {
  const double alpha = function.alpha, beta = function.beta;
  switch (function.kind) {
    case ActivationKind::kRelu:
      return x <= 0 ? 0 : x;
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kSigmoid:
      return Sigmoid(x);
    case ActivationKind::kAffine:
      return alpha * x + beta;
    case ActivationKind::kLeakyRelu:
      return x >= 0 ? x : alpha * x;
    case ActivationKind::kThresholdedRelu:
      return x < alpha ? 0 : x;
    case ActivationKind::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case ActivationKind::kHardSigmoid:
      return HardSigmoid(alpha * x + beta);
    case ActivationKind::kElu:
      return x >= 0 ? x : alpha * std::expm1(x);
    case ActivationKind::kSoftsign:
      return Softsign(x);
    case ActivationKind::kSoftplus:
      if (std::isnan(x)) return x;
      return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
  }
  return x;
}

}  // namespace rnnserve
