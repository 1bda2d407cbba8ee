// SPDX-License-Identifier: Apache-2.0
#include "server/signals.h"

#include <pthread.h>

#include <chrono>

namespace rnnserve {

sigset_t BlockLeaveSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGHUP, SIG_IGN);
  return signals;
}

int AwaitSignal(const sigset_t& signals, absl::Duration longest) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (absl::Duration left = longest; left > absl::ZeroDuration();
       left = longest - absl::FromChrono(Clock::now() - start)) {
    const timespec wait = absl::ToTimespec(left);
    if (const int signal = sigtimedwait(&signals, nullptr, &wait); signal > 0) return signal;
  }
  return 0;
}

}  // namespace rnnserve
