// SPDX-License-Identifier: Apache-2.0
// Bounds how often one kind of event is logged: callers must not fill disks.
//
//   if (const auto skipped = limit.Allow(SteadyNow())) LogWarning(StrCat("...", *skipped, " more before it"));
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace rnnserve {

// Thread-safe.
class LogLimit {
 public:
  // `most` in an interval.
  explicit LogLimit(absl::Duration interval = absl::Seconds(1), int64_t most = 1) : interval_(interval), most_(most) {}

  // If one may be logged: how many were not allowed since the last time. Else nothing.
  std::optional<int64_t> Allow(absl::Time now) {
    const MutexLock lock(mutex_);
    // A clock that was set back must not silence the log.
    const bool goes_on = now < next_ && now >= next_ - interval_;
    if (!goes_on) {
      next_ = now + interval_;
      allowed_ = 0;
    }
    if (allowed_ == most_) {
      ++skipped_;
      return std::nullopt;
    }
    ++allowed_;
    return std::exchange(skipped_, 0);
  }

 private:
  const absl::Duration interval_;
  const int64_t most_;
  Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int64_t allowed_ ABSL_GUARDED_BY(mutex_) = 0;  // since next_ was set
  int64_t skipped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rnnserve
