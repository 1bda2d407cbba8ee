// SPDX-License-Identifier: Apache-2.0
#include "server/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "server/telemetry/log.h"

namespace rnnserve {

sigset_t BlockStopSignals() {
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

ExitOnSignal::ExitOnSignal(const sigset_t& signals)
    : signal_fd_(signalfd(-1, &signals, SFD_CLOEXEC)), done_fd_(eventfd(0, EFD_CLOEXEC)), thread_([this] {
        std::array<pollfd, 2> wait = {{{done_fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}}};
        while (poll(wait.data(), wait.size(), -1) < 0) {
        }
        if (wait[0].revents != 0) return;
        LogInfo("told to leave before anything was served");
        std::_Exit(0);
      }) {}

ExitOnSignal::~ExitOnSignal() {
  eventfd_write(done_fd_, 1);
  thread_.join();
  close(signal_fd_);
  close(done_fd_);
}

}  // namespace rnnserve
