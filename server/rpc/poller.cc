// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/poller.h"

#include <chrono>
#include <optional>

#include "base/completion.h"
#include "base/joined_sends.h"
#include "server/telemetry/release_caches.h"

namespace rnnserve {
namespace {

// Work does not wait for more of them.
constexpr int kMostEvents = 256;
// What is sent does not wait longer for the end of a turn.
constexpr int64_t kMostJoinedNanos = 1'000'000;

// Never 0.
int64_t SteadyNanos() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count() | 1;
}

void Complete(void* tag, bool ok) {
  AfterCompletion(tag);
  static_cast<CompletionTag*>(tag)->Complete(ok);
}

}  // namespace

Poller::~Poller() { Stop(); }

void Poller::Start() {
  thread_ = std::thread([this] { Poll(); });
}

void Poller::Stop() {
  if (queue_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    released_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return guards_ == 0; });
  }
  queue_->Shutdown();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    // Never started. The functions of Work may be gone, so this drains the queue without calling them.
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) Complete(tag, ok);
  }
  queue_.reset();
}

void Poller::Poll() {
  void* tag = nullptr;
  bool ok = false;
  int events = 0;  // since work was run
  // Of a turn: what gRPC writes for the next read leaves with the answer, not before it.
  std::optional<JoinedSends> joined;
  int64_t joined_since = 0;
  work_.run(false);
  for (;;) {
    busy_since_ns_.store(0, std::memory_order_relaxed);
    const auto next = Next(&tag, &ok);
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    const int64_t now = SteadyNanos();
    busy_since_ns_.store(now, std::memory_order_relaxed);
    ReleaseCachesIfAsked();
    if (next == grpc::CompletionQueue::GOT_EVENT) {
      if (!joined || now - joined_since > kMostJoinedNanos) {
        joined.emplace();
        joined_since = now;
      }
      Complete(tag, ok);
      if (work_.waiting() == 0) {
        joined.reset();
        continue;
      }
      const bool is_all = busy_poll_.is_alone() && work_.is_complete();
      if (++events < kMostEvents && !is_all) continue;
    }
    busy_poll_.Took(work_.waiting(), absl::Nanoseconds(std::exchange(waited_ns_, 0)));
    work_.run(busy_poll_.is_alone());
    joined.reset();
    events = 0;
  }
}

grpc::CompletionQueue::NextStatus Poller::Next(void** tag, bool* ok) {
  if (work_.waiting() > 0) return queue_->AsyncNext(tag, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
  const bool is_idle = work_.is_idle();
  const int64_t began = SteadyNanos();
  const grpc::CompletionQueue::NextStatus found =
      Await(is_idle ? busy_poll_.PollFor() : absl::ZeroDuration(), began, tag, ok);
  const int64_t waited = SteadyNanos() - began;
  waited_ns_ += waited;
  if (is_idle) busy_poll_.Came(absl::Nanoseconds(waited));
  return found;
}

grpc::CompletionQueue::NextStatus Poller::Await(absl::Duration window, int64_t began_ns, void** tag, bool* ok) {
  const int64_t end_ns = began_ns + absl::ToInt64Nanoseconds(window);
  while (window > absl::ZeroDuration() && SteadyNanos() < end_ns) {
    const auto found = queue_->AsyncNext(tag, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
    if (found != grpc::CompletionQueue::TIMEOUT) return found;
  }
  return queue_->AsyncNext(tag, ok, gpr_inf_future(GPR_CLOCK_MONOTONIC));
}

bool Poller::IsResponsive(absl::Duration patience) const {
  const int64_t since = busy_since_ns_.load(std::memory_order_relaxed);
  return since == 0 || SteadyNanos() - since < absl::ToInt64Nanoseconds(patience);
}

Poller::QueueGuard::QueueGuard(Poller& poller) : poller_(poller) {
  MutexLock lock(poller_.mutex_);
  ++poller_.guards_;
}

Poller::QueueGuard::~QueueGuard() {
  MutexLock lock(poller_.mutex_);
  if (--poller_.guards_ == 0) poller_.released_.notify_all();
}

}  // namespace rnnserve
