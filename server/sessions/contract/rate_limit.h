// SPDX-License-Identifier: Apache-2.0
// So many a second, with a burst of one second's worth. Not thread-safe; its owner locks.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace rnnserve {

class RateLimit {
 public:
  // 0: no limit.
  explicit RateLimit(double per_second) : per_second_(per_second), tokens_(std::max(per_second, 1.0)) {}

  bool Take(absl::Duration now) {
    if (per_second_ <= 0) return true;
    const double burst = std::max(per_second_, 1.0);
    tokens_ = std::min(burst, tokens_ + absl::ToDoubleSeconds(now - last_) * per_second_);
    last_ = now;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  double per_second_;
  double tokens_;
  absl::Duration last_;
};

}  // namespace rnnserve
