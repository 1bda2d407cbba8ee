// SPDX-License-Identifier: Apache-2.0
// Whether there is room for more within the memory that the process may take: a container's limit, above which the
// kernel kills it. Budgets bound each kind of memory; this bounds their sum, as the kernel counts it, with what the
// allocator keeps.
//
//   MemoryWatch watch(int64_t{4} << 30, [] { return ResidentBytes(); });
//   if (!watch.HasRoom(bytes)) return Overloaded(Rejection::kMemory, ...);
//
// What was let in lately counts besides, as if none of it had been taken yet. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "absl/time/time.h"
#include "server/telemetry/steady_now.h"

namespace rnnserve {

class MemoryWatch {
 public:
  // `resident`: what the process takes now. `relieve`: called with true while there is no room, now and then, to give
  // back what is only kept for later; with false once there is plenty again.
  MemoryWatch(int64_t limit, std::function<int64_t()> resident, std::function<void(bool)> relieve = {});

  // False: with `bytes` more, and all that has been promised, the process would come too close to the limit.
  bool HasRoom(int64_t bytes, absl::Time now = SteadyNow());
  // Somebody who is in may take so much at any time, until the same is promised with a minus. What has been taken of it
  // counts twice meanwhile: who waits in a queue takes it late.
  void Promise(int64_t bytes) { promised_.fetch_add(bytes, std::memory_order_relaxed); }

  int64_t limit() const { return limit_; }
  // Of the limit; the rest is for what the kernel counts besides (sockets, page tables, files).
  int64_t usable() const { return usable_; }

 private:
  void Look(absl::Time now);
  void Turn(absl::Time now);

  const int64_t limit_;
  const int64_t usable_;
  const std::function<int64_t()> measure_;
  const std::function<void(bool)> relieve_;
  std::atomic<int64_t> promised_ = 0;
  std::mutex mutex_;
  // Guarded by mutex_.
  int64_t resident_ = 0;
  // Let in since `turned_`, and in the time before that.
  int64_t lately_ = 0;
  int64_t before_ = 0;
  absl::Time turned_ = absl::InfinitePast();
  absl::Time looked_ = absl::InfinitePast();
  bool in_need_ = false;
  absl::Time relieved_ = absl::InfinitePast();
};

// Of this process, as /proc has it; 0 if it cannot be read.
int64_t ResidentBytes();

}  // namespace rnnserve
