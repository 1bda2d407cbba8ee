// SPDX-License-Identifier: Apache-2.0
// Bounds the calls in flight and the bytes of their messages, together and for each caller (FairBound). Closed when the
// server drains.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/admission/fair_bound.h"
#include "server/admission/memory_watch.h"

namespace rnnserve {

class CallAdmission {
 public:
  struct Options {
    // Calls in flight; further calls are RESOURCE_EXHAUSTED.
    int64_t max_calls = 4096;
    // Bytes of their request messages together. A call that is alone is always admitted.
    int64_t max_bytes = int64_t{1} << 30;
    // Whether the process has memory for them; outlives this. Null: only the bounds above hold.
    MemoryWatch* memory = nullptr;
  };

  explicit CallAdmission(Options options)
      : memory_(options.memory), calls_(options.max_calls), bytes_(options.max_bytes) {}

  // A call in flight, or a message of a stream, until this is destroyed.
  class InFlight {
   public:
    InFlight(InFlight&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          caller_(other.caller_),
          bytes_(other.bytes_),
          promised_(other.promised_) {}
    InFlight& operator=(InFlight&&) = delete;
    ~InFlight() {
      if (admission_ != nullptr) admission_->Leave(*this);
    }

   private:
    friend class CallAdmission;
    InFlight(CallAdmission* admission, uint64_t caller, int64_t bytes, int64_t promised)
        : admission_(admission), caller_(caller), bytes_(bytes), promised_(promised) {}
    CallAdmission* admission_;
    uint64_t caller_;
    int64_t bytes_;
    int64_t promised_;  // of memory
  };

  // RESOURCE_EXHAUSTED if there is no room, UNAVAILABLE once closed. Calls with `even_if_closed` are admitted until the
  // server shuts down. `has_memory`: what the message is parsed into has been promised already.
  absl::StatusOr<InFlight> Enter(uint64_t caller, int64_t bytes, bool even_if_closed = false, bool has_memory = false);
  // UNAVAILABLE once closed, like Enter.
  absl::Status IsOpen(bool even_if_closed) const;

  // Calls in flight.
  int64_t calls() const;
  MemoryWatch* memory() const { return memory_; }

  // Admits no further calls.
  void Close();
  // Waits until no call is in flight; false at `deadline` or after CancelWait.
  bool WaitEmpty(absl::Time deadline);
  // Waits for `most` or until CancelWait; true after CancelWait.
  bool WaitCancelled(absl::Duration most);
  // Ends both waits now and in future.
  void CancelWait();

 private:
  void Leave(const InFlight& call);
  absl::Status IsOpenLocked(bool even_if_closed) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemoryWatch* const memory_;
  mutable Mutex mutex_;
  CondVar changed_;
  FairBound calls_ ABSL_GUARDED_BY(mutex_);
  FairBound bytes_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool wait_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rnnserve
