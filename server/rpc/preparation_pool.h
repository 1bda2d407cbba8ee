// SPDX-License-Identifier: Apache-2.0
// Threads for work that is too long for the poller thread: parsing and hashing large messages, loading models.
//
//   co_await pool.Schedule(caller);     // the rest of the coroutine runs on a thread of the pool
//
// Callers take turns: a caller that sends a thousand large messages does not delay the next caller's. CallAdmission
// bounds the work that waits here by the calls in flight. The destructor runs what is queued.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace rnnserve {

class PreparationPool {
 public:
  explicit PreparationPool(int threads);
  ~PreparationPool();
  PreparationPool(const PreparationPool&) = delete;
  PreparationPool& operator=(const PreparationPool&) = delete;

  class Awaiter {
   public:
    // Null: stays where it is.
    Awaiter(PreparationPool* pool, uint64_t caller) : pool_(pool), caller_(caller) {}
    bool await_ready() const noexcept { return pool_ == nullptr; }
    void await_suspend(std::coroutine_handle<> waiting) { pool_->Enqueue(waiting, caller_); }
    void await_resume() const noexcept {}

   private:
    PreparationPool* pool_;
    uint64_t caller_;
  };
  // `caller`: a tenant or a connection.
  Awaiter Schedule(uint64_t caller) { return Awaiter(this, caller); }

 private:
  void Enqueue(std::coroutine_handle<> waiting, uint64_t caller);
  std::coroutine_handle<> TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work();

  Mutex mutex_;
  CondVar wake_;
  absl::flat_hash_map<uint64_t, std::deque<std::coroutine_handle<>>> queues_
      ABSL_GUARDED_BY(mutex_);                          // by caller; none is empty
  std::deque<uint64_t> turns_ ABSL_GUARDED_BY(mutex_);  // the callers of queues_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace rnnserve
