// SPDX-License-Identifier: Apache-2.0
// Calls a function at a moment, to within tens of microseconds (gRPC's own waits are rounded up to milliseconds).
//
//   PreciseTimer timer([&] { wake the thread that waits elsewhere });
//   timer.Arm(moment);       // replaces the moment armed before
//
// Arming costs one system call and wakes no thread. The function runs on the timer's own thread; it may also be called
// for a moment that was replaced just then.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"

namespace rnnserve::rnnctl::bench {

class PreciseTimer {
 public:
  static absl::StatusOr<std::unique_ptr<PreciseTimer>> Create(std::function<void()> fire);
  ~PreciseTimer();  // waits for a call that runs
  PreciseTimer(const PreciseTimer&) = delete;
  PreciseTimer& operator=(const PreciseTimer&) = delete;

  // `moment` on std::chrono::steady_clock; one that is past fires at once.
  void Arm(std::chrono::nanoseconds moment);

 private:
  struct State;
  explicit PreciseTimer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace rnnserve::rnnctl::bench
