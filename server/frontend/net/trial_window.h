// SPDX-License-Identifier: Apache-2.0
// How many connections may be on trial at once, that is handed over and without a call: few to begin with, and more
// once those on trial do call, as TCP's slow start has it. Clients that come back all together double it in each of
// their round trips; those that only hold connections get one place a turn.
#pragma once

#include <algorithm>
#include <cstddef>

namespace rnnserve {

class TrialWindow {
 public:
  static constexpr size_t kLeast = 16;
  static constexpr size_t kMost = 256;

  // The places of this turn, one at least: of those on trial `waiting` have not called, and `proved` have called since
  // the last turn.
  size_t Places(size_t waiting, size_t proved) {
    window_ = std::min(window_ + 2 * std::min(proved, kMost), kMost);
    if (window_ > waiting) return window_ - waiting;
    if (proved == 0) window_ = kLeast;
    return 1;
  }

 private:
  size_t window_ = kLeast;
};

}  // namespace rnnserve
