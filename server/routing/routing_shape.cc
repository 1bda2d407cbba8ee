// SPDX-License-Identifier: Apache-2.0
#include "server/routing/routing_shape.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace rnnserve {
namespace {

constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 256, 1024};
constexpr int64_t kSteps[] = {1, 4, 16};

double Ratio(int64_t a, int64_t b) { return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b))); }

int64_t Nearest(std::span<const int64_t> classes, int64_t value) {
  value = std::max<int64_t>(value, 1);
  return *std::ranges::min_element(classes, {}, [value](int64_t of) { return Ratio(of, value); });
}

}  // namespace

RouteShape ShapeOf(const RouteLoad& load) { return {Nearest(kRows, load.rows), Nearest(kSteps, load.steps)}; }

double Distance(const RouteShape& a, const RouteShape& b) { return Ratio(a.rows, b.rows) + Ratio(a.steps, b.steps); }

}  // namespace rnnserve
