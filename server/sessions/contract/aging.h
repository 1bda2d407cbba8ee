// SPDX-License-Identifier: Apache-2.0
// The time that sessions age by. It follows the clock, but one sweep moves it by at most one sweep period: a process
// that was stopped for minutes does not wake to end every session.
//
//   AgingClock aging(&clock, absl::Seconds(1));
//   absl::Duration touched = aging.Now();
//   ...
//   absl::Duration now = aging.Advance();      // each sweep
//
// Thread-safe.
#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/sessions/contract/clock.h"

namespace rnnserve {

class AgingClock {
 public:
  AgingClock(const MonotonicClock* clock, absl::Duration period)
      : clock_(clock), period_(period), swept_at_(clock->Now()) {}

  absl::Duration Now() const {
    const MutexLock lock(mutex_);
    return Current(clock_->Now());
  }

  // Called by the sweep.
  absl::Duration Advance() {
    const MutexLock lock(mutex_);
    const absl::Duration now = clock_->Now();
    age_ = Current(now);
    swept_at_ = now;
    return age_;
  }

  absl::Duration period() const { return period_; }

 private:
  absl::Duration Current(absl::Duration now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return age_ + std::clamp(now - swept_at_, absl::ZeroDuration(), period_);
  }

  const MonotonicClock* const clock_;
  const absl::Duration period_;
  mutable Mutex mutex_;
  absl::Duration age_ ABSL_GUARDED_BY(mutex_);
  absl::Duration swept_at_ ABSL_GUARDED_BY(mutex_);  // by clock_
};

}  // namespace rnnserve
