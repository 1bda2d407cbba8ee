// SPDX-License-Identifier: Apache-2.0
// The least of the numbers seen in the last second, or in up to two. Time is an argument and never goes back. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace rnnserve {

class RecentLeast {
 public:
  // Without any: half of the largest number, so that twice as much is a number, too.
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max() / 2;

  void Saw(int64_t number, absl::Time now) {
    if (now - turned_ >= kTurn) {
      last_ = now - turned_ < 2 * kTurn ? this_ : kNone;
      this_ = kNone;
      turned_ = now;
    }
    this_ = std::min(this_, number);
  }
  int64_t Get(absl::Time now) const {
    const absl::Duration age = now - turned_;
    if (age >= 2 * kTurn) return kNone;
    return age >= kTurn ? this_ : std::min(this_, last_);
  }

 private:
  static constexpr absl::Duration kTurn = absl::Seconds(1);

  int64_t this_ = kNone, last_ = kNone;
  absl::Time turned_ = absl::InfinitePast();
};

}  // namespace rnnserve
