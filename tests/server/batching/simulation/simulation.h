// SPDX-License-Identifier: Apache-2.0
// Runs one scenario through the scheduler's policy with a clock and an engine of its own, and says what broke a
// promise.
//
//   std::string fault = Simulate(seed, Fault::kNone);      // empty: all promises held
#pragma once

#include <cstdint>
#include <string>

#include "tests/server/batching/simulation/fault.h"

namespace rnnserve::simulation {

std::string Simulate(uint64_t seed, Fault fault);

// Of one seed. What begins before the machine slows down and ends after is lost, at 4 times capacity more than at 1;
// and the most at less load is the luckiest of four. Over many seeds 0.9 is asked for.
constexpr double kLeastKept = 0.8;

struct Overload {
  std::string fault;  // what broke a promise, or that `kept` is less than kLeastKept
  double kept = 0;    // goodput at 4 times capacity to the most at less load, in steps of answers in time
};

Overload SimulateOverload(uint64_t seed, Fault fault);

}  // namespace rnnserve::simulation
