// SPDX-License-Identifier: Apache-2.0
// Awaits a function that reports through a callback, called exactly once on any thread, during the call or later.
//
//   absl::StatusOr<InferReply> reply = co_await Callback<absl::StatusOr<InferReply>>(
//       [&](auto done) { core.Run(std::move(call), std::move(done)); });
//
// The coroutine resumes on the thread that calls the callback, or after the function if that calls it itself.
#pragma once

#include <atomic>
#include <coroutine>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace rnnserve {

template <typename T>
class Callback {
 public:
  using Done = absl::AnyInvocable<void(T)>;

  explicit Callback(absl::AnyInvocable<void(Done)> start) : start_(std::move(start)) {}
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  bool await_ready() const noexcept { return false; }

  // The second to finish, the callback or this function, continues the coroutine: resuming it from within
  // `start` would destroy what `start` still uses.
  bool await_suspend(std::coroutine_handle<> waiting) {
    waiting_ = waiting;
    start_([this](T result) {
      result_.emplace(std::move(result));
      if (came_first_.test_and_set(std::memory_order_acq_rel)) waiting_.resume();
    });
    return !came_first_.test_and_set(std::memory_order_acq_rel);
  }

  T await_resume() { return *std::move(result_); }

 private:
  absl::AnyInvocable<void(Done)> start_;
  std::coroutine_handle<> waiting_;
  std::optional<T> result_;
  std::atomic_flag came_first_;
};

}  // namespace rnnserve
