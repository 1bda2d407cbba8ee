// SPDX-License-Identifier: Apache-2.0
#include "server/routing/routing_shape.h"

#include <cmath>
#include <cstddef>
#include <span>

namespace rnnserve {
namespace {

constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 256, 1024};
constexpr int64_t kSteps[] = {1, 4, 16};

double Ratio(int64_t a, int64_t b) { return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b))); }

// Without logarithms: each call asks.
int64_t Nearest(std::span<const int64_t> classes, int64_t value) {
  const auto square = static_cast<double>(value) * static_cast<double>(value);
  size_t k = 0;
  while (k + 1 < classes.size() && square > static_cast<double>(classes[k] * classes[k + 1])) ++k;
  return classes[k];
}

}  // namespace

RouteShape ShapeOf(const RouteLoad& load) {
  return {Nearest(kRows, load.rows), Nearest(kSteps, load.steps), load.is_shared};
}

double Distance(const RouteShape& a, const RouteShape& b) {
  return Ratio(a.rows, b.rows) + Ratio(a.steps, b.steps) + (a.is_shared == b.is_shared ? 0 : 1);
}

}  // namespace rnnserve
