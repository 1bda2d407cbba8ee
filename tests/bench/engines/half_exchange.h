// SPDX-License-Identifier: Apache-2.0
// What two threads that share a recurrent layer cannot do without: each writes its half of h, tells the other one, and
// reads that one's half.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hwy/cache_control.h"

namespace rnnserve::bench {

class HalfExchange {
 public:
  static constexpr size_t kMostFloats = 1024;

  // Thread 0 or 1, which call it equally often, each with the same number of floats.
  void Step(size_t thread, size_t floats) {
    Half &own = halves_[thread], &other = halves_[1 - thread];
    const int64_t step = own.step.load(std::memory_order_relaxed) + 1;
    std::copy_n(own.last, floats, own.data[step % 2]);
    own.step.store(step, std::memory_order_release);
    while (other.step.load(std::memory_order_acquire) < step) hwy::Pause();
    std::copy_n(other.data[step % 2], floats, own.last);
  }

 private:
  struct Half {
    alignas(64) std::atomic<int64_t> step{0};
    alignas(64) float data[2][kMostFloats] = {};  // the other thread may still read that of the step before
    alignas(64) float last[kMostFloats] = {};     // what it read
  };
  std::array<Half, 2> halves_;
};

}  // namespace rnnserve::bench
