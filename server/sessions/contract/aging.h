// SPDX-License-Identifier: Apache-2.0
// The time that sessions age by. It follows the clock, but one sweep moves it by at most one sweep period: a process
// that was stopped for minutes does not wake to end every session.
//
//   AgingClock aging(&clock, absl::Seconds(1));
//   absl::Duration touched = aging.Now();
//   ...
//   absl::Duration now = aging.Advance();      // each sweep
//
// Thread-safe, but for Advance, which one thread calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "server/sessions/contract/clock.h"

namespace rnnserve {

class AgingClock {
 public:
  AgingClock(const MonotonicClock* clock, absl::Duration period)
      : clock_(clock), period_ns_(Nanoseconds(period)), offset_ns_(-Nanoseconds(clock->Now())) {}

  // Every operation of every session asks. Beside Advance it may be one period ahead.
  absl::Duration Now() const { return absl::Nanoseconds(AgeAt(Nanoseconds(clock_->Now()))); }

  // Called by the sweep.
  absl::Duration Advance() {
    const int64_t now_ns = Nanoseconds(clock_->Now());
    const int64_t age_ns = AgeAt(now_ns);
    age_ns_.store(age_ns, std::memory_order_relaxed);
    offset_ns_.store(age_ns - now_ns, std::memory_order_relaxed);
    return absl::Nanoseconds(age_ns);
  }

 private:
  static int64_t Nanoseconds(absl::Duration duration) { return absl::ToInt64Nanoseconds(duration); }
  int64_t AgeAt(int64_t now_ns) const {
    const int64_t age_ns = age_ns_.load(std::memory_order_relaxed);
    return std::clamp(now_ns + offset_ns_.load(std::memory_order_relaxed), age_ns, age_ns + period_ns_);
  }

  const MonotonicClock* const clock_;
  const int64_t period_ns_;
  std::atomic<int64_t> age_ns_ = 0;  // at the last Advance
  std::atomic<int64_t> offset_ns_;   // of it from clock_ at that time
};

}  // namespace rnnserve
