// SPDX-License-Identifier: Apache-2.0
// When a measurement may end: the last windows tell the same, in calls a second and in mean latency.
#pragma once

#include <cstddef>
#include <deque>

namespace rnnserve::rnnctl::bench {

struct WindowFigures {
  double calls_per_second = 0;
  double mean_latency_s = 0;
};

// As perf_analyzer of Triton judges, whose users know the rule.
inline constexpr size_t kStableWindows = 3;

// Whether there are kStableWindows of them, none without calls, and each figure lies within `tolerance` (0.1: 10 %) of
// its mean over them.
bool IsStable(const std::deque<WindowFigures>& last, double tolerance);

}  // namespace rnnserve::rnnctl::bench
