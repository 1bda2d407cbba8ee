// SPDX-License-Identifier: Apache-2.0
// Ctrl-C or SIGTERM while this lives: the first one only says so and ends a blocking read, a second one ends the
// process as usual.
#pragma once

#include <csignal>

namespace rnnserve::rnnctl {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  struct sigaction before_[2];
};

}  // namespace rnnserve::rnnctl
