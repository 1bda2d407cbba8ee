// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/door.h"

#include "absl/strings/str_cat.h"
#include "engine/op/field_error.h"
#include "server/telemetry/rejection.h"
#include "server/telemetry/steady_now.h"

namespace rnnserve {

absl::Status Door::Enter(uint64_t caller, int64_t bytes, bool even_if_closed) {
  return Take(caller, bytes, even_if_closed, memory_);
}
void Door::Leave(uint64_t caller, int64_t bytes) { GiveBack(caller, bytes, memory_); }

absl::Status Door::EnterWithMemory(uint64_t caller, int64_t bytes, bool even_if_closed) {
  return Take(caller, bytes, even_if_closed, nullptr);
}
void Door::LeaveWithMemory(uint64_t caller, int64_t bytes) { GiveBack(caller, bytes, nullptr); }

absl::Status Door::IsOpen(bool even_if_closed) const {
  MutexLock lock(mutex_);
  return IsOpenLocked(even_if_closed);
}

absl::Status Door::IsOpenLocked(bool even_if_closed) const {
  if (!closed_ || even_if_closed) return absl::OkStatus();
  return WithReason(absl::UnavailableError("the server is shutting down; send the request to another one or later"),
                    "DRAINING");
}

absl::Status Door::Take(uint64_t caller, int64_t bytes, bool even_if_closed, MemoryWatch* memory) {
  MutexLock lock(mutex_);
  if (absl::Status open = IsOpenLocked(even_if_closed); !open.ok()) return open;
  if (!calls_.Fits(caller, 1)) {
    return Overloaded(Rejection::kQueueFull, absl::StrCat("the server is busy with ", calls_.used(), " calls, ",
                                                          calls_.held(caller), " of them this caller's, and takes ",
                                                          calls_.most(), " at once; send this one later"));
  }
  if (!bytes_.Fits(caller, bytes)) {
    return Overloaded(
        Rejection::kMemory,
        absl::StrCat("the server holds ", bytes_.used(), " of ", bytes_.most(), " bytes of request messages, ",
                     bytes_.held(caller), " of them this caller's, and this one has ", bytes, "; send it later"));
  }
  // They are parsed into as many bytes again. Whoever comes alone may always enter.
  const bool is_alone = calls_.used() == 0;
  if (memory != nullptr && !is_alone && !memory->TryPromise(bytes)) {
    return Overloaded(Rejection::kMemory, absl::StrCat("the server is close to the ", memory->limit(),
                                                       " bytes that it may take; send this call later"));
  }
  calls_.Take(caller, 1);
  bytes_.Take(caller, bytes);
  if (memory != nullptr && is_alone) memory->Promise(bytes);
  return absl::OkStatus();
}

void Door::GiveBack(uint64_t caller, int64_t bytes, MemoryWatch* memory) {
  MutexLock lock(mutex_);
  calls_.GiveBack(caller, 1);
  bytes_.GiveBack(caller, bytes);
  if (memory != nullptr) memory->Promise(-bytes);
  // Under the lock: whoever waits may destroy the door as soon as it has the lock.
  if (calls_.used() == 0) changed_.notify_all();
}

int64_t Door::calls() const {
  MutexLock lock(mutex_);
  return calls_.used();
}

void Door::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

bool Door::WaitEmpty(absl::Time deadline) {
  MutexLock lock(mutex_);
  const auto enough = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.used() == 0 || hurried_; };
  if (deadline == absl::InfiniteFuture()) {
    changed_.wait(lock, enough);
  } else {
    changed_.wait_for(lock, absl::ToChronoNanoseconds(deadline - SteadyNow()), enough);
  }
  return calls_.used() == 0;
}

bool Door::WaitHurry(absl::Duration most) {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(most),
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return hurried_; });
  return hurried_;
}

void Door::Hurry() {
  MutexLock lock(mutex_);
  hurried_ = true;
  changed_.notify_all();
}

}  // namespace rnnserve
