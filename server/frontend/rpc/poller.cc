// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/poller.h"

#include <chrono>

#include "server/frontend/rpc/completion.h"
#include "server/telemetry/give_back.h"

namespace rnnserve {
namespace {

// Work does not wait for more of them.
constexpr int kMostEvents = 256;

// Never 0.
int64_t SteadyNanos() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count() | 1;
}

}  // namespace

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
  int events = 0;  // since work was run
  work_.run();
  for (;;) {
    busy_since_ns_.store(0, std::memory_order_relaxed);
    const gpr_timespec until = work_.waits() ? gpr_inf_past(GPR_CLOCK_MONOTONIC) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
    const auto next = queue_->AsyncNext(&tag, &ok, until);
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    busy_since_ns_.store(SteadyNanos(), std::memory_order_relaxed);
    GiveBackIfAsked();
    if (next == grpc::CompletionQueue::GOT_EVENT) {
      AfterCompletion(tag);
      static_cast<CompletionTag*>(tag)->Complete(ok);
      if (!work_.waits() || (++events < kMostEvents && !work_.is_complete())) continue;
    }
    work_.run();
    events = 0;
  }
}

bool Poller::IsTurning(absl::Duration patience) const {
  const int64_t since = busy_since_ns_.load(std::memory_order_relaxed);
  return since == 0 || SteadyNanos() - since < absl::ToInt64Nanoseconds(patience);
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
