// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/poller.h"

#include "absl/time/clock.h"
#include "server/frontend/rpc/completion.h"

namespace rnnserve {

Poller::~Poller() { Stop(); }

void Poller::Start() {
  thread_ = std::thread([this] { Poll(); });
}

void Poller::Stop() {
  if (queue_ == nullptr) return;
  {
    std::unique_lock lock(mutex_);
    nobody_.wait(lock, [this] { return guests_ == 0; });
  }
  queue_->Shutdown();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    Poll();  // never started: the queue must be drained all the same
  }
  queue_.reset();
}

void Poller::Poll() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    busy_since_ns_.store(absl::GetCurrentTimeNanos(), std::memory_order_relaxed);
    static_cast<CompletionTag*>(tag)->Complete(ok);
    busy_since_ns_.store(0, std::memory_order_relaxed);
  }
}

bool Poller::IsTurning(absl::Duration patience) const {
  const int64_t since = busy_since_ns_.load(std::memory_order_relaxed);
  return since == 0 || absl::GetCurrentTimeNanos() - since < absl::ToInt64Nanoseconds(patience);
}

Poller::Guest::Guest(Poller& poller) : poller_(poller) {
  std::lock_guard lock(poller_.mutex_);
  ++poller_.guests_;
}

Poller::Guest::~Guest() {
  std::lock_guard lock(poller_.mutex_);
  if (--poller_.guests_ == 0) poller_.nobody_.notify_all();
}

}  // namespace rnnserve
