// SPDX-License-Identifier: Apache-2.0
// gRPC's notice that a call is over: answered, or cancelled by its caller. It comes on the poller thread, and must be
// awaited there before the call's context is destroyed.
//
//   context.AsyncNotifyWhenDone(end.tag());   // before the slot is posted
//   ...
//   co_await end;
#pragma once

#include <coroutine>
#include <functional>
#include <utility>

#include "base/completion.h"

namespace rnnserve {

class CallEnd final : private CompletionTag {
 public:
  // `on_end` is called at the notice, before a coroutine that awaits it goes on.
  explicit CallEnd(std::function<void()> on_end) : on_end_(std::move(on_end)) {}
  CallEnd(const CallEnd&) = delete;
  CallEnd& operator=(const CallEnd&) = delete;

  void* tag() { return static_cast<CompletionTag*>(this); }

  bool await_ready() const noexcept { return ended_; }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { waiting_ = waiting; }
  void await_resume() const noexcept {}

 private:
  void Complete(bool) override {
    on_end_();
    ended_ = true;
    if (waiting_) waiting_.resume();
  }

  const std::function<void()> on_end_;
  bool ended_ = false;
  std::coroutine_handle<> waiting_;
};

}  // namespace rnnserve
