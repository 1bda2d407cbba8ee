// SPDX-License-Identifier: Apache-2.0
// Programs of equal cells timed against each other on this machine, taking turns, so that whatever else the machine
// does meets all of them alike.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/core/routing_shape.h"

namespace rnnserve {

// Time since some moment in the past; never goes back.
using RouteClock = std::function<absl::Duration()>;
absl::Duration SteadyTime();

struct TrialLimits {
  // Rounds end after this; but each program is timed once at least, after having run once or twice to warm up.
  absl::Duration total = absl::Milliseconds(10);
  // Runs that would take longer have fewer steps than their shape says.
  absl::Duration run = absl::Milliseconds(1);
  int most_rounds = 12;
};

// Seconds of one step of all rows, for each program: the best of its runs. Infinity for one that failed.
std::vector<double> TimePrograms(std::span<const ProgramPtr> programs, const CellSpec& cell, const RouteShape& shape,
                                 const TrialLimits& limits, const RouteClock& clock);

}  // namespace rnnserve
