// SPDX-License-Identifier: Apache-2.0
// The time for deadlines and durations: the machine's clock as it was at the first call, and from there on by the
// steady clock. Setting the machine's clock, by a second or by a year, moves no deadline and opens no quota. Not for
// telling people what time it is.
#pragma once

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rnnserve {

inline absl::Time SteadyNow() {
  struct Start {
    std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
    absl::Time time = absl::Now();
  };
  static const Start start;
  return start.time + absl::FromChrono(std::chrono::steady_clock::now() - start.steady);
}

// What a clock on the wall will show at `time`, which SteadyNow() tells.
inline absl::Time WallTimeOf(absl::Time time) { return absl::Now() + (time - SteadyNow()); }

}  // namespace rnnserve
