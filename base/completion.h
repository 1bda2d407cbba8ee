// SPDX-License-Identifier: Apache-2.0
// Coroutines over a gRPC completion queue.
//
//   CallTask Serve(Slot& slot) {                       // starts at once, owns itself, ends by itself
//     const bool arrived = co_await Completion([&](void* tag) { RequestSomething(..., tag); });
//     if (!arrived) co_return;                         // the server is shutting down
//     ...
//   }
//
// Each event of the queue has a CompletionTag as its tag; the poller calls its Complete, which resumes the coroutine.
// The thread that starts an operation must not touch the coroutine afterwards: it may already run on the poller.
#pragma once

#include <coroutine>
#include <exception>
#include <mutex>
#include <utility>

#include "base/recycled.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace rnnserve {

// What a completion queue hands back. `ok` as gRPC documents it for the operation.
class CompletionTag {
 public:
  virtual void Complete(bool ok) = 0;

 protected:
  ~CompletionTag() = default;
};

// What comes before an operation, and starting it, happens before its completion. gRPC sees to that with locks that
// ThreadSanitizer does not know, so it is told.
#ifdef __SANITIZE_THREAD__
inline void BeforeStart(void* tag) { __tsan_release(tag); }
inline void AfterCompletion(void* tag) { __tsan_acquire(tag); }
using StartMutex = std::mutex;
#else
inline void BeforeStart(void*) {}
inline void AfterCompletion(void*) {}
struct StartMutex {
  void lock() {}
  void unlock() {}
};
#endif

// Awaits one operation: `start(tag)` starts it, the result is its `ok`.
template <typename Start>
class Completion final : private CompletionTag {
 public:
  explicit Completion(Start start) : start_(std::move(start)) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    waiting_ = waiting;
    void* const tag = static_cast<CompletionTag*>(this);
    BeforeStart(tag);
    const std::lock_guard lock(starting_);
    start_(tag);
  }
  bool await_resume() const noexcept { return ok_; }

 private:
  void Complete(bool ok) override {
    { const std::lock_guard lock(starting_); }
    ok_ = ok;
    waiting_.resume();
  }

  StartMutex starting_;
  Start start_;
  std::coroutine_handle<> waiting_;
  bool ok_ = false;
};

// A coroutine without an awaiting one: an exception that leaves one ends the process. Errors are values in this code;
// the one exception it knows, std::bad_alloc, is caught where a Task is awaited.
struct CallTask {
  struct promise_type : Recycled {
    CallTask get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

}  // namespace rnnserve
