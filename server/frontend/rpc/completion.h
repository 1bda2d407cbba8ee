// SPDX-License-Identifier: Apache-2.0
// Coroutines over a gRPC completion queue.
//
//   CallTask Serve(Slot& slot) {                       // starts at once, owns itself, ends by itself
//     const bool arrived = co_await Completion([&](void* tag) { RequestSomething(..., tag); });
//     if (!arrived) co_return;                         // the server is shutting down
//     ...
//   }
//
// Each event of the queue has a CompletionTag as its tag; the poller calls its Complete. The coroutine goes on there.
// Whoever starts an operation must not touch the coroutine afterwards: it may already run on the poller.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace rnnserve {

// What a completion queue hands back. `ok` as gRPC documents it for the operation.
class CompletionTag {
 public:
  virtual void Complete(bool ok) = 0;

 protected:
  ~CompletionTag() = default;
};

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
    start_(static_cast<void*>(static_cast<CompletionTag*>(this)));
  }
  bool await_resume() const noexcept { return ok_; }

 private:
  void Complete(bool ok) override {
    ok_ = ok;
    waiting_.resume();
  }

  Start start_;
  std::coroutine_handle<> waiting_;
  bool ok_ = false;
};

// A coroutine that nobody waits for. Errors are values in this code: an exception that leaves one ends the process.
struct CallTask {
  struct promise_type {
    CallTask get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

}  // namespace rnnserve
