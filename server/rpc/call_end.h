// SPDX-License-Identifier: Apache-2.0
// gRPC's notice that a call is over: answered, or cancelled by its caller. It comes on the poller thread, and must be
// awaited there before the call's context is destroyed.
//
//   CallEnd end(context);                       // before the slot is posted
//   context.AsyncNotifyWhenDone(end.tag());
//   ...
//   co_await end;
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <coroutine>
#include <functional>
#include <memory>
#include <utility>

#include "base/completion.h"

namespace rnnserve {

class CallEnd final : private CompletionTag {
 public:
  // `on_end` is called at the notice, before a coroutine that awaits it goes on.
  explicit CallEnd(grpc::ServerContext& context, std::function<void()> on_end = {})
      : context_(context), on_end_(std::move(on_end)) {}
  CallEnd(const CallEnd&) = delete;
  CallEnd& operator=(const CallEnd&) = delete;

  // Becomes true when the caller cancels, disconnects or its deadline passes.
  const std::shared_ptr<std::atomic<bool>>& cancelled() const { return cancelled_; }
  void* tag() { return static_cast<CompletionTag*>(this); }

  bool await_ready() const noexcept { return ended_; }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { waiting_ = waiting; }
  void await_resume() const noexcept {}

 private:
  void Complete(bool) override {
    if (context_.IsCancelled()) cancelled_->store(true, std::memory_order_relaxed);
    if (on_end_) on_end_();
    ended_ = true;
    if (waiting_) waiting_.resume();
  }

  grpc::ServerContext& context_;
  const std::function<void()> on_end_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  bool ended_ = false;
  std::coroutine_handle<> waiting_;
};

}  // namespace rnnserve
