// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/stability.h"

#include <algorithm>
#include <cmath>

namespace rnnserve::rnnctl::bench {
namespace {

bool IsSteady(const std::deque<WindowFigures>& last, double WindowFigures::*figure, double tolerance) {
  double mean = 0;
  for (const WindowFigures& window : last) mean += window.*figure / static_cast<double>(last.size());
  return std::all_of(last.begin(), last.end(),
                     [&](const WindowFigures& window) { return std::abs(window.*figure - mean) <= tolerance * mean; });
}

}  // namespace

bool IsStable(const std::deque<WindowFigures>& last, double tolerance) {
  if (last.size() != kStableWindows) return false;
  if (std::any_of(last.begin(), last.end(), [](const auto& window) { return window.calls_per_second <= 0; })) {
    return false;
  }
  return IsSteady(last, &WindowFigures::calls_per_second, tolerance) &&
         IsSteady(last, &WindowFigures::mean_latency_s, tolerance);
}

}  // namespace rnnserve::rnnctl::bench
