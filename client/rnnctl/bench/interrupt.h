// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while this lives: the first one only says so, a second one ends the process as usual.
#pragma once

#include <csignal>

namespace rnnserve::rnnctl::bench {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  struct sigaction before_;
};

}  // namespace rnnserve::rnnctl::bench
