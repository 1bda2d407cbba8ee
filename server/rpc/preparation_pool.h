// SPDX-License-Identifier: Apache-2.0
// Threads for work that is too long for the poller thread: parsing and hashing large messages, loading models; or that
// another CPU can do meanwhile.
//
//   co_await pool.Schedule(caller);     // the rest of the coroutine runs on a thread of the pool
//
// Callers take turns: a caller that sends a thousand large messages does not delay the next caller's. CallAdmission
// bounds the work that waits here by the calls in flight. The destructor runs what is queued.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace rnnserve {

class PreparationPool {
 public:
  // `work(true)`: what runs on this thread now collects work; `work(false)`: runs it, and collects no more.
  explicit PreparationPool(
      int threads, std::function<void(bool)> work = [](bool) {});
  ~PreparationPool();
  PreparationPool(const PreparationPool&) = delete;
  PreparationPool& operator=(const PreparationPool&) = delete;

  class Awaiter {
   public:
    // Null: stays where it is.
    Awaiter(PreparationPool* pool, uint64_t caller, bool collects = false, int most = std::numeric_limits<int>::max())
        : pool_(pool), caller_(caller), collects_(collects), most_(most) {}
    bool await_ready() const noexcept { return pool_ == nullptr; }
    bool await_suspend(std::coroutine_handle<> waiting) { return pool_->Enqueue({waiting, collects_}, caller_, most_); }
    void await_resume() const noexcept {}

   private:
    PreparationPool* pool_;
    uint64_t caller_;
    bool collects_;
    int most_;
  };
  // `caller`: a tenant or a connection.
  Awaiter Schedule(uint64_t caller) { return Awaiter(this, caller); }
  // For what never waits for the work that it adds: its thread runs that itself. Stays where it is unless a thread has
  // nothing to do and fewer than `most` have.
  Awaiter ScheduleToCollect(uint64_t caller, int most) {
    return Awaiter(this, caller, /*collects=*/true, std::min(static_cast<int>(threads_.size()), most));
  }

 private:
  struct Entry {
    std::coroutine_handle<> waiting;
    bool collects;
  };
  // False: `most` entries run or wait.
  bool Enqueue(Entry entry, uint64_t caller, int most);
  Entry TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work();

  const std::function<void(bool)> work_;
  Mutex mutex_;
  CondVar wake_;
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;                                             // entries that wait or run
  absl::flat_hash_map<uint64_t, std::deque<Entry>> queues_ ABSL_GUARDED_BY(mutex_);  // by caller; none is empty
  std::deque<uint64_t> turns_ ABSL_GUARDED_BY(mutex_);                               // the callers of queues_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace rnnserve
