// SPDX-License-Identifier: Apache-2.0
// The earliest timeout of each session's queued operations, and the sweep thread's wait for the next. Thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/sessions/contract/clock.h"

namespace rnnserve {

class Session;

class QueueTimeouts {
 public:
  // Wakes the waiting thread if `at` is the earliest of all.
  void Add(absl::Duration at, const std::shared_ptr<Session>& session) {
    const MutexLock lock(mutex_);
    const auto [known, is_new] = entries_.try_emplace(session.get(), due_.end());
    if (!is_new) {
      if (known->second->first <= at) return;
      due_.erase(known->second);
    }
    known->second = due_.emplace(at, session);
    if (known->second == due_.begin()) wake_.notify_all();
  }

  // For sessions that have ended.
  void Remove(const Session* session) {
    const MutexLock lock(mutex_);
    const auto known = entries_.find(session);
    if (known == entries_.end()) return;
    due_.erase(known->second);
    entries_.erase(known);
  }
  void Clear() {
    const MutexLock lock(mutex_);
    entries_.clear();
    due_.clear();
  }

  // Those whose time has come; they are out.
  std::vector<std::shared_ptr<Session>> TakeDue(absl::Duration now) {
    std::vector<std::shared_ptr<Session>> sessions;
    const MutexLock lock(mutex_);
    while (!due_.empty() && due_.begin()->first <= now) {
      const auto first = due_.begin();
      entries_.erase(first->second.get());
      sessions.push_back(std::move(first->second));
      due_.erase(first);
    }
    return sessions;
  }

  // Until the earliest is due, `most` is over, or Stop. False: stopped.
  bool Wait(const MonotonicClock& clock, absl::Duration most) {
    MutexLock lock(mutex_);
    const absl::Duration until = clock.Now() + most;
    for (;;) {
      const absl::Duration next = due_.empty() ? until : std::min(until, due_.begin()->first);
      const absl::Duration left = next - clock.Now();
      if (stopped_ || left <= absl::ZeroDuration()) return !stopped_;
      wake_.wait_for(lock, absl::ToChronoNanoseconds(left));
    }
  }
  void Stop() {
    const MutexLock lock(mutex_);
    stopped_ = true;
    wake_.notify_all();
  }

 private:
  using Due = std::multimap<absl::Duration, std::shared_ptr<Session>>;

  Mutex mutex_;
  CondVar wake_;
  Due due_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Session*, Due::iterator> entries_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rnnserve
