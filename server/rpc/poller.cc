// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/poller.h"

#include <chrono>
#include <mutex>
#include <optional>

#include "base/completion.h"
#include "base/joined_sends.h"
#include "server/telemetry/release_caches.h"

namespace rnnserve {
namespace {

// Work does not wait for more of them.
constexpr int kMostEvents = 256;
// Where so many calls wait, and fewer than so many, a second look for more pays.
constexpr int64_t kSome = 8, kEnough = 24;
// What is sent does not wait longer for the end of a turn.
constexpr int64_t kMostJoinedNanos = 1'000'000;
// Since the thread went to sleep last.
constexpr int64_t kLongSinceSleepNanos = 1'000'000;

// Never 0.
int64_t SteadyNanos() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count() | 1;
}

thread_local const Poller* this_poller = nullptr;
// Answers may let streams go on, whose messages have many operations: a thread's stack does not grow with them.
thread_local bool runs_work = false;

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
  this_poller = this;
  void* tag = nullptr;
  bool ok = false;
  int events = 0;  // since work was run
  // Of a turn: what gRPC writes for the next read leaves with the answer, not before it.
  std::optional<JoinedSends> joined;
  int64_t joined_since = 0;
  work_.run(BusyPoll::kFew + 1, /*collects=*/true);
  for (;;) {
    busy_since_ns_.store(0, std::memory_order_relaxed);
    const auto next = Next(&tag, &ok);
    if (next == grpc::CompletionQueue::SHUTDOWN) return work_.run(BusyPoll::kFew + 1, /*collects=*/false);
    const int64_t now = SteadyNanos();
    busy_since_ns_.store(now, std::memory_order_relaxed);
    ReleaseCachesIfAsked();
    if (!joined || now - joined_since > kMostJoinedNanos) {
      joined.emplace();
      joined_since = now;
    }
    if (next == grpc::CompletionQueue::GOT_EVENT) Complete(tag, ok);
    CompleteWaiters();
    if (work_.waiting() == 0) {
      joined.reset();
      continue;
    }
    if (next == grpc::CompletionQueue::GOT_EVENT) {
      const bool is_all = !busy_poll_.must_look() && work_.waiting() >= work_.in_flight();
      if (++events < kMostEvents && !is_all) continue;
    }
    busy_poll_.Took(work_.unfinished());
    RunWork();
    joined.reset();
    events = 0;
  }
}

void Poller::Enqueue(Waiter* waiter) {
  {
    MutexLock lock(mutex_);
    (first_waiter_ == nullptr ? first_waiter_ : last_waiter_->next_) = waiter;
    last_waiter_ = waiter;
    has_waiters_.store(true, std::memory_order_relaxed);
    if (!asleep_ || waking_) return;
    waking_ = true;
    ++guards_;
  }
  // Once for all that this thread ends together.
  JoinedSends::AtEnd([](void* wake) { static_cast<Wake*>(wake)->Start(); }, &wake_);
}

void Poller::CompleteWaiters() {
  while (has_waiters_.load(std::memory_order_relaxed)) {
    Waiter* waiter = nullptr;
    {
      MutexLock lock(mutex_);
      waiter = std::exchange(first_waiter_, nullptr);
      has_waiters_.store(false, std::memory_order_relaxed);
    }
    while (waiter != nullptr) {
      Waiter* const next = std::exchange(waiter->next_, nullptr);
      waiter->Complete(true);
      waiter = next;
    }
  }
}

bool Poller::BeginSleep() {
  MutexLock lock(mutex_);
  asleep_ = first_waiter_ == nullptr;
  return asleep_;
}

void Poller::Wake::Start() {
  void* const tag = static_cast<CompletionTag*>(this);
  BeforeStart(tag);
  const std::lock_guard starting(starting_);
  alarm_.Set(poller_.queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), tag);
}

void Poller::Wake::Complete(bool) {
  { const std::lock_guard starting(starting_); }
  MutexLock lock(poller_.mutex_);
  poller_.waking_ = false;
  poller_.Release();
}

void Poller::RunWork() noexcept {
  if (runs_work || work_.waiting() == 0) return;
  if (!is_this_thread()) return CollectBeside(true);
  runs_work = true;
  work_.run(busy_poll_.callers(), /*collects=*/true);
  CompleteWaiters();
  JoinedSends::LetGo();
  runs_work = false;
}

void Poller::CollectBeside(bool collects) noexcept {
  runs_work = true;
  work_.run(BusyPoll::kFew + 1, collects);
  runs_work = false;
}

bool Poller::is_this_thread() const { return this_poller == this; }

bool Poller::MayAnswerHere() const {
  return is_this_thread() || SteadyNanos() - went_to_sleep_ns_.load(std::memory_order_relaxed) > kLongSinceSleepNanos;
}

grpc::CompletionQueue::NextStatus Poller::Next(void** tag, bool* ok) {
  if (work_.waiting() > 0) return Look(tag, ok);
  if (!BeginSleep()) return grpc::CompletionQueue::TIMEOUT;
  const bool is_idle = work_.in_flight() == 0;
  const int64_t began = SteadyNanos();
  went_to_sleep_ns_.store(began, std::memory_order_relaxed);
  const grpc::CompletionQueue::NextStatus found =
      Await(is_idle ? busy_poll_.PollFor() : absl::ZeroDuration(), began, tag, ok);
  const int64_t waited = SteadyNanos() - began;
  if (is_idle) busy_poll_.Came(absl::Nanoseconds(waited));
  MutexLock lock(mutex_);
  asleep_ = false;
  return found;
}

// An event that came while this thread did not poll leaves a mark (gRPC's kicked_without_poller), and the next look
// ends there, before it has looked at any connection. With more calls than a few it is known that several call. Where
// eight came, others have some, too: answers to all of them leave together and wake their client once. Fewer are
// answered while their client sends the next ones; still more would make slices too long for this thread.
grpc::CompletionQueue::NextStatus Poller::Look(void** tag, bool* ok) {
  const auto look = [&] { return queue_->AsyncNext(tag, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)); };
  const grpc::CompletionQueue::NextStatus found = look();
  if (found != grpc::CompletionQueue::TIMEOUT) return found;
  const int64_t waiting = work_.waiting();
  return waiting <= BusyPoll::kFew || (waiting >= kSome && waiting < kEnough) ? look() : found;
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
  poller_.Release();
}

void Poller::Release() {
  if (--guards_ == 0) released_.notify_all();
}

}  // namespace rnnserve
