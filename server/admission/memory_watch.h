// SPDX-License-Identifier: Apache-2.0
// Whether there is room for more within the memory that the process may take: a container's limit, above which the
// kernel kills it. Budgets bound each kind of memory; this bounds their sum, as the kernel counts it, with what the
// allocator keeps.
//
//   MemoryWatch watch(int64_t{4} << 30, [] { return AnonymousBytes(); });
//   if (!watch.TryPromise(bytes)) return Overloaded(Rejection::kMemory, ...);
//   ...
//   watch.Took(bytes);        // allocated and written: the kernel counts it from now on
//
// Bytes that are promised and not yet taken count in addition to the process's memory. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/steady_now.h"

namespace rnnserve {

class MemoryWatch {
 public:
  // `resident`: the process's memory now. `relieve`: called with true now and then while there is no room, to free
  // caches; with false once there is plenty again.
  MemoryWatch(int64_t limit, std::function<int64_t()> resident, std::function<void(bool)> relieve = {});

  // False: with `bytes` more, and all promised bytes, the process would come too close to the limit. Bytes that it has
  // lately found room for count for a while, as if none of them had been taken yet.
  bool HasRoom(int64_t bytes, absl::Time now = SteadyNow());
  // Reserves `bytes`; release with Took() or Promise(-bytes).
  bool TryPromise(int64_t bytes, absl::Time now = SteadyNow());
  // Promises whether there is room or not; negative: ends a promise.
  void Promise(int64_t bytes) { promised_.fetch_add(bytes, std::memory_order_relaxed); }
  // `bytes` of what was promised have been taken.
  void Took(int64_t bytes) {
    taken_.fetch_add(bytes, std::memory_order_relaxed);
    promised_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  int64_t limit() const { return limit_; }
  // Part of the limit; the rest is for what the kernel counts besides (sockets, page tables, files).
  int64_t usable() const { return usable_; }

 private:
  void Look(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Turn(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Fits(int64_t bytes, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t limit_;
  const int64_t usable_;
  const std::function<int64_t()> measure_;
  const std::function<void(bool)> relieve_;
  std::atomic<int64_t> promised_ = 0;
  std::atomic<int64_t> taken_ = 0;  // since the last look, or a little before
  Mutex mutex_;
  int64_t resident_ ABSL_GUARDED_BY(mutex_) = 0;
  // Bytes that HasRoom has found room for since `turned_`, and in the time before that.
  int64_t lately_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t before_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time turned_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool in_need_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time relieved_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Resident memory of this process, from /proc, without the pages of its files, which the kernel takes back when it
// needs them. 0 if it cannot be read.
int64_t AnonymousBytes();

}  // namespace rnnserve
