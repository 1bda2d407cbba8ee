// SPDX-License-Identifier: Apache-2.0
// Threads for what is too long for the poller: parsing and hashing large messages, loading models.
//
//   co_await pool.Hop();     // the rest of the coroutine runs on a thread of the pool
//
// What waits here is bounded by the calls in flight (Door). The destructor runs what is queued.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace rnnserve {

class PreparationPool {
 public:
  explicit PreparationPool(int threads);
  ~PreparationPool();
  PreparationPool(const PreparationPool&) = delete;
  PreparationPool& operator=(const PreparationPool&) = delete;

  class Hopping {
   public:
    // Null: stays where it is.
    explicit Hopping(PreparationPool* pool) : pool_(pool) {}
    bool await_ready() const noexcept { return pool_ == nullptr; }
    void await_suspend(std::coroutine_handle<> waiting) { pool_->Enqueue(waiting); }
    void await_resume() const noexcept {}

   private:
    PreparationPool* pool_;
  };
  Hopping Hop() { return Hopping(this); }

 private:
  void Enqueue(std::coroutine_handle<> waiting);
  void Work();

  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::deque<std::coroutine_handle<>> queue_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace rnnserve
