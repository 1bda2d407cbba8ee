// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/arrivals.h"

#include <algorithm>
#include <cmath>

namespace rnnserve::rnnctl::bench {

PoissonArrivals::PoissonArrivals(double per_second, uint64_t seed, std::chrono::nanoseconds start)
    : random_(seed), gap_s_(per_second), next_(start) {
  Advance();
}

void PoissonArrivals::Advance() {
  // A day at most: keeps the sum in range at absurdly low rates.
  const double gap_ns = std::min(gap_s_(random_) * 1e9, 86400e9);
  next_ += std::chrono::nanoseconds(std::llround(gap_ns));
}

}  // namespace rnnserve::rnnctl::bench
