// SPDX-License-Identifier: Apache-2.0
// The thread that lets sessions age.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/time/time.h"
#include "server/sessions/memory_sessions.h"

namespace rnnserve {

class Sweeper {
 public:
  // `sessions` outlives it. `period` is that of its options.
  Sweeper(MemorySessions* sessions, absl::Duration period)
      : sessions_(sessions), period_(period), thread_([this] { Sweep(); }) {}
  ~Sweeper() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

 private:
  void Sweep() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, absl::ToChronoNanoseconds(period_), [this] { return stopping_; })) {
      lock.unlock();
      sessions_->Sweep();
      lock.lock();
    }
  }

  MemorySessions* const sessions_;
  const absl::Duration period_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: it uses everything above
};

}  // namespace rnnserve
