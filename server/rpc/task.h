// SPDX-License-Identifier: Apache-2.0
// A coroutine with a result, awaited by exactly one other coroutine.
//
//   Task<UnaryReply> Infer(UnaryCall& call) { ...; co_return reply; }
//   UnaryReply reply = co_await Infer(call);     // starts here, resumes on the thread where the task ends
//
// It starts when awaited and must be awaited before it is destroyed. Its awaiter gets what it throws.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "base/recycled.h"

namespace rnnserve {

template <typename T>
class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct ResumeWaiting {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle ended) const noexcept { return ended.promise().waiting; }
    void await_resume() const noexcept {}
  };

  struct promise_type : Recycled {
    Task get_return_object() noexcept { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    ResumeWaiting final_suspend() noexcept { return {}; }
    void return_value(T result) { value.emplace(std::move(result)); }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }

    std::coroutine_handle<> waiting;
    std::optional<T> value;
    std::exception_ptr thrown;
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
    handle_.promise().waiting = waiting;
    return handle_;
  }
  T await_resume() {
    if (handle_.promise().thrown) std::rethrow_exception(handle_.promise().thrown);
    return *std::move(handle_.promise().value);
  }

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

}  // namespace rnnserve
