// SPDX-License-Identifier: Apache-2.0
// Counts the calls inside, bounds them in number and bytes, together and for each caller (FairBound), and closes for
// good when the server leaves.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/batching/fair_bound.h"
#include "server/telemetry/memory_watch.h"

namespace rnnserve {

class CallAdmission {
 public:
  struct Options {
    // Calls inside at once; further ones are RESOURCE_EXHAUSTED.
    int64_t max_calls = 4096;
    // Bytes of their request messages together. One message may always enter when nothing else is inside.
    int64_t max_bytes = int64_t{1} << 30;
    // Whether the process has memory for them; outlives this. Null: the above is all there is to it.
    MemoryWatch* memory = nullptr;
  };

  explicit CallAdmission(Options options)
      : memory_(options.memory), calls_(options.max_calls), bytes_(options.max_bytes) {}

  // OK: inside, until Leave with the same numbers. Else RESOURCE_EXHAUSTED, or UNAVAILABLE once closed.
  // Calls with `even_if_closed` are admitted until the server shuts down.
  absl::Status Enter(uint64_t caller, int64_t bytes, bool even_if_closed = false);
  void Leave(uint64_t caller, int64_t bytes);
  // The same for a call whose memory has been reserved already.
  absl::Status EnterWithMemory(uint64_t caller, int64_t bytes, bool even_if_closed);
  void LeaveWithMemory(uint64_t caller, int64_t bytes);
  // UNAVAILABLE once closed, like Enter.
  absl::Status IsOpen(bool even_if_closed) const;

  // Calls inside.
  int64_t calls() const;

  // Admits no further calls.
  void Close();
  // Waits until no call is inside; false if that takes longer than until `deadline` or Hurry is called.
  bool WaitEmpty(absl::Time deadline);
  // Waits so long, or until Hurry is called; whether it was.
  bool WaitHurry(absl::Duration most);
  // Ends both waits now and in future.
  void Hurry();

 private:
  absl::Status Take(uint64_t caller, int64_t bytes, bool even_if_closed, MemoryWatch* memory);
  void Release(uint64_t caller, int64_t bytes, MemoryWatch* memory);
  absl::Status IsOpenLocked(bool even_if_closed) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemoryWatch* const memory_;
  mutable Mutex mutex_;
  CondVar changed_;
  FairBound calls_ ABSL_GUARDED_BY(mutex_);
  FairBound bytes_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurried_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rnnserve
