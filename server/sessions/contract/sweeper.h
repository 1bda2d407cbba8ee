// SPDX-License-Identifier: Apache-2.0
// The thread that ends idle sessions, and fails queued operations whose timeouts have passed.
#pragma once

#include <thread>

#include "absl/time/time.h"
#include "server/sessions/contract/memory_sessions.h"

namespace rnnserve {

class Sweeper {
 public:
  // `sessions` outlives it. `period` is that of its options.
  Sweeper(MemorySessions* sessions, absl::Duration period)
      : sessions_(sessions), period_(period), thread_([this] { Sweep(); }) {}
  ~Sweeper() {
    sessions_->StopWaiting();
    thread_.join();
  }
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

 private:
  void Sweep() {
    const SteadyClock clock;
    absl::Duration swept = clock.Now();
    while (sessions_->WaitForTimeouts(swept + period_ - clock.Now())) {
      sessions_->EndTimeouts();
      if (clock.Now() - swept < period_) continue;
      swept = clock.Now();
      sessions_->Sweep();
    }
  }

  MemorySessions* const sessions_;
  const absl::Duration period_;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
