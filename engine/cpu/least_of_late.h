// SPDX-License-Identifier: Apache-2.0
// The shortest time of late: what a kind of work takes where nothing stalls it.
#pragma once

#include <algorithm>

namespace rnnserve::cpu {

class LeastOfLate {
 public:
  // `forgets`: by how much of the difference a longer time lengthens it, 0 to 1.
  void Add(double seconds, double forgets) {
    if (value_ == 0 || seconds < value_) {
      value_ = seconds;
    } else {
      value_ += forgets * (std::min(seconds, 2 * value_) - value_);
    }
  }
  double value() const { return value_; }  // 0: none yet

 private:
  double value_ = 0;
};

}  // namespace rnnserve::cpu
