// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve::rnnctl::bench {

struct PreciseTimer::State {
  int descriptor;
  std::function<void()> fire;
  std::atomic<bool> leaving{false};
  std::thread thread;

  void Watch() {
    uint64_t times = 0;
    while (!leaving.load()) {
      if (read(descriptor, &times, sizeof(times)) == sizeof(times) && !leaving.load()) fire();
    }
  }
};

absl::StatusOr<std::unique_ptr<PreciseTimer>> PreciseTimer::Create(std::function<void()> fire) {
  // steady_clock is CLOCK_MONOTONIC on Linux.
  const int descriptor = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  if (descriptor < 0) return absl::InternalError(absl::StrCat("cannot make a timer: ", strerror(errno)));
  auto state = std::make_unique<State>();
  state->descriptor = descriptor;
  state->fire = std::move(fire);
  state->thread = std::thread([watched = state.get()] { watched->Watch(); });
  return std::unique_ptr<PreciseTimer>(new PreciseTimer(std::move(state)));
}

PreciseTimer::PreciseTimer(std::unique_ptr<State> state) : state_(std::move(state)) {}

PreciseTimer::~PreciseTimer() {
  state_->leaving.store(true);
  Arm(std::chrono::nanoseconds(1));
  state_->thread.join();
  close(state_->descriptor);
}

void PreciseTimer::Arm(std::chrono::nanoseconds moment) {
  // 0 would disarm.
  const std::chrono::nanoseconds at = std::max(moment, std::chrono::nanoseconds(1));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at);
  itimerspec when = {};
  when.it_value.tv_sec = static_cast<time_t>(seconds.count());
  when.it_value.tv_nsec = static_cast<long>((at - seconds).count());
  timerfd_settime(state_->descriptor, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace rnnserve::rnnctl::bench
