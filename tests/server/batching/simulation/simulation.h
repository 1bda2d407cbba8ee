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

// Beyond capacity: what broke a promise, or goodput at 4 times capacity that is less than 0.9 of the most at less load,
// in steps of answers in time.
std::string SimulateOverload(uint64_t seed, Fault fault);

}  // namespace rnnserve::simulation
