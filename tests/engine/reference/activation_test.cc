// SPDX-License-Identifier: Apache-2.0
// Each function at points worked out by hand, and where naive formulas overflow.
#include "engine/reference/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rnnserve {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Point {
  Activation function;
  double x;
  double want;
};

TEST(ActivationTest, KnownPoints) {
  const Point points[] = {
      {{ActivationKind::kRelu}, -2, 0},
      {{ActivationKind::kRelu}, 3, 3},
      {{ActivationKind::kTanh}, 0.5, 0.46211715726000975},
      {{ActivationKind::kTanh}, kInf, 1},
      {{ActivationKind::kSigmoid}, 0, 0.5},
      {{ActivationKind::kSigmoid}, 2, 0.8807970779778823},
      {{ActivationKind::kSigmoid}, -2, 0.11920292202211755},
      {{ActivationKind::kSigmoid}, -800, 0},
      {{ActivationKind::kSigmoid}, 800, 1},
      {{ActivationKind::kAffine, 2, 1}, 3, 7},
      {{ActivationKind::kLeakyRelu, 0.1, 0}, -2, -0.2},
      {{ActivationKind::kLeakyRelu, 0.1, 0}, 2, 2},
      {{ActivationKind::kThresholdedRelu, 1, 0}, 1, 1},  // at alpha: the recurrent texts say >=
      {{ActivationKind::kThresholdedRelu, 1, 0}, 0.999, 0},
      {{ActivationKind::kThresholdedRelu, 1, 0}, 1.5, 1.5},
      {{ActivationKind::kScaledTanh, 2, 0.5}, 1, 0.9242343145200195},
      {{ActivationKind::kHardSigmoid, 0.2, 0.5}, 1, 0.7},
      {{ActivationKind::kHardSigmoid, 0.2, 0.5}, 3, 1},
      {{ActivationKind::kHardSigmoid, 0.2, 0.5}, -3, 0},
      {{ActivationKind::kHardSigmoid, -0.2, 0.5}, 1, 0.3},
      {{ActivationKind::kElu, 2, 0}, -1, -1.2642411176571153},
      {{ActivationKind::kElu, 2, 0}, 1, 1},
      {{ActivationKind::kElu, 2, 0}, -1e-20, -2e-20},
      {{ActivationKind::kSoftsign}, -3, -0.75},
      {{ActivationKind::kSoftsign}, -kInf, -1},
      {{ActivationKind::kSoftplus}, 0, 0.6931471805599453},
      {{ActivationKind::kSoftplus}, 1000, 1000},
      {{ActivationKind::kSoftplus}, -50, 1.9287498479639178e-22},
      {{ActivationKind::kSoftplus}, kInf, kInf},
  };
  for (const Point& point : points) {
    const double got = Apply(point.function, point.x);
    if (std::isinf(point.want)) {
      EXPECT_EQ(got, point.want);
    } else {
      EXPECT_NEAR(got, point.want, 1e-15 * std::fabs(point.want))
          << "function " << static_cast<int>(point.function.kind) << " at " << point.x;
    }
  }
}

TEST(ActivationTest, NanStaysNan) {
  for (int kind = 0; kind <= static_cast<int>(ActivationKind::kSoftplus); ++kind) {
    EXPECT_TRUE(std::isnan(Apply({static_cast<ActivationKind>(kind), 0.5, 0.5}, kNan))) << "function " << kind;
  }
}

}  // namespace
}  // namespace rnnserve
