// SPDX-License-Identifier: Apache-2.0
// Programs of equal cells timed against each other on this machine, taking turns, so that whatever else the machine
// does meets all of them alike.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/routing/routing_shape.h"

namespace rnnserve {

// Time since some moment in the past; never goes back.
using RouteClock = std::function<absl::Duration()>;
absl::Duration SteadyTime();
// That the calling thread has had a CPU.
absl::Duration ThreadTime();

struct TrialClocks {
  RouteClock wall = &SteadyTime;  // of limits, and of programs that wait for a device
  // Of all other programs: they run on the calling thread, and what other threads take from it on a busy machine says
  // nothing about them.
  RouteClock thread = &ThreadTime;
};

struct TrialLimits {
  // Rounds end after this, but there are at least so many of them, after a few runs to warm up.
  absl::Duration total = absl::Milliseconds(10);
  int least_rounds = 1;
  // Runs that would take longer have fewer steps than their shape says, but this many.
  absl::Duration run = absl::Milliseconds(1);
  int64_t least_steps = 2;
  int most_rounds = 15;
};

// For trials that no call waits for.
inline constexpr TrialLimits PatientLimits() {
  return {.total = absl::Milliseconds(100),
          .least_rounds = 7,
          .run = absl::Milliseconds(10),
          .least_steps = 4,
          .most_rounds = 101};
}

// Seconds of one step of all rows, for each program: the lower quartile of its turns. Infinity for one that failed.
std::vector<double> TimePrograms(std::span<const ProgramPtr> programs, const CellSpec& cell, const RouteShape& shape,
                                 const TrialLimits& limits, const TrialClocks& clocks);

}  // namespace rnnserve
