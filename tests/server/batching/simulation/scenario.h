// SPDX-License-Identifier: Apache-2.0
// What happens in one simulated run of the scheduler: programs with their true cost, arrivals, cancels and deadlines,
// all from one seed.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "server/batching/batch_queue.h"

namespace rnnserve::simulation {

// What a step of a program really costs; the scheduler has to find out.
struct ProgramCost {
  double step_seconds = 0;
  double row_seconds = 0;
  int64_t packed_bytes = 0;  // from which it guesses at first
  int64_t step_work = 1;
};

struct Arrival {
  absl::Duration at;
  int tenant = 0;
  int32_t priority = 0;
  int64_t bytes = 0;
  absl::Duration deadline = absl::InfiniteDuration();  // from the start of the run
  absl::Duration cancel = absl::InfiniteDuration();    // likewise
  struct Sequence {
    int program = 0;
    int64_t steps = 1;
    bool has_state = false;
  };
  std::vector<Sequence> sequences;
};

struct Scenario {
  uint64_t seed = 0;
  BatchQueue::Options options;
  std::vector<ProgramCost> programs;
  std::vector<Arrival> arrivals;  // in the order of time
  // All tenants have work all the time, each through programs of its own: each gets the same.
  bool is_share_test = false;
  int tenants = 1;
  // In each such period the machine is slower by `slow` for a quarter of it.
  absl::Duration slow_period = absl::InfiniteDuration();
  double slow = 1;
  // Steps of answers in time count from here to there.
  absl::Duration measured_from = absl::ZeroDuration(), measured_to = absl::InfiniteDuration();
};

Scenario MakeScenario(uint64_t seed);

// One model, requests at random moments, `load` times as much as its program computes in slices of 16 rows, all with
// the same time to their deadlines.
Scenario MakeOverload(uint64_t seed, double load);

}  // namespace rnnserve::simulation
