// SPDX-License-Identifier: Apache-2.0
// The moments at which requests of an open loop are due: a Poisson process, whose gaps are exponential. They depend on
// the seed alone, never on how fast answers come; that is what makes the loop open.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace rnnserve::rnnctl::bench {

class PoissonArrivals {
 public:
  // `per_second` above 0. The first gap begins at `start`.
  PoissonArrivals(double per_second, uint64_t seed, std::chrono::nanoseconds start);

  std::chrono::nanoseconds next() const { return next_; }
  void Advance();

 private:
  std::mt19937_64 random_;
  std::exponential_distribution<double> gap_s_;
  std::chrono::nanoseconds next_;
};

}  // namespace rnnserve::rnnctl::bench
