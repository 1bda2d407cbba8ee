// SPDX-License-Identifier: Apache-2.0
// Time as sessions see it: monotonic, from an origin that means nothing. A test brings its own.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace rnnserve {

class MonotonicClock {
 public:
  virtual ~MonotonicClock() = default;
  // Never goes back. Safe from any thread.
  virtual absl::Duration Now() const = 0;
};

class SteadyClock final : public MonotonicClock {
 public:
  absl::Duration Now() const override { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }
};

}  // namespace rnnserve
