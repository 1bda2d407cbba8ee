// SPDX-License-Identifier: Apache-2.0
// Workers that run the slices of one BatchQueue.
//
//   auto scheduler = std::make_unique<CellularScheduler>(BatchQueue::Options{.workers = 2});
//   absl::Status queued = scheduler->Schedule(std::move(submission));   // never blocks
//
// An idle worker starts at once; while it runs, sequences of the next slice arrive. BatchQueue decides what runs, and
// in which order; this class adds threads, a clock and one mutex.
//
// A thread that collects requests may run short slices itself, which saves two thread switches:
//
//   while (...) {
//     ...                                       // receives calls; its Schedule calls wake no worker
//     if (scheduler->collected() > 0) scheduler->RunCollected(/*callers=*/3);
//   }
//
// Thread-safe. No lock is held while an engine runs or `done` is called. The destructor runs what is queued; call
// Abort first to fail it instead.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/seen_cpu.h"
#include "server/batching/batch_queue.h"
#include "server/batching/scheduler.h"
#include "server/batching/workspace_cache.h"

namespace rnnserve {

// Longest expected duration of slices that RunCollected runs. For a lone caller it saves the switch to a worker, which
// beside busy processes includes the wait for a CPU, so only slices that are longer than the target go to workers. With
// several callers the other calls wait for the collecting thread, and workers would run beside it: only slices shorter
// than what the switch costs pay: the wake-up, and for each row the way of its request, state and reply from one
// processor's caches to the other's and back. Of two callers only one waits, and a slice of 190 us still gained where
// switches are slow.
struct ShortSlices {
  absl::Duration of_lone_caller = absl::Microseconds(1500);
  absl::Duration of_two_callers = std::min(of_lone_caller, absl::Microseconds(250));
  absl::Duration among_several = std::min(of_lone_caller, absl::Microseconds(60));
  absl::Duration each_row_more = among_several / 20;  // among several
};

class CellularScheduler final : public Scheduler {
 public:
  // `workers` of the queue's options is the number of threads; at least 1.
  explicit CellularScheduler(BatchQueue::Options options, ShortSlices short_slices = {});
  ~CellularScheduler() override;
  CellularScheduler(const CellularScheduler&) = delete;
  CellularScheduler& operator=(const CellularScheduler&) = delete;

  absl::Status Schedule(Submission&& submission) override;
  QueueLoad load() const override;

  // Queues what this thread has collected, runs short slices of what waits, and leaves the rest to the workers. Not to
  // be called by a `done`. `callers`: 1, 2, or 3 where more call or it is not known. `collects`: from now on Schedule
  // collects on this thread, which must call this soon after and not wait for an outcome before; what Schedule would
  // refuse this refuses by `done`.
  void RunCollected(int64_t callers, bool collects = true);
  // Submissions that this thread has collected since its last RunCollected.
  int64_t collected() const;

  // Ends queued work, running work after its current slice, and all later work with UNAVAILABLE.
  void Abort();

 private:
  void Work(size_t worker);
  absl::Status Add(Submission& submission, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends those that are refused, holding no lock.
  void AddCollected(MutexLock& lock, absl::Time now) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // `own`: the worker's among busy_; null on a thread that collects.
  void RunSlice(MutexLock& lock, Slice slice, WorkspaceCache& workspaces, BatchQueue::Finished& finished,
                SeenCpu* own = nullptr) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void TakeCpu(SeenCpu& own);
  static void NotifyUnlocked(MutexLock& lock, BatchQueue::Finished& finished) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Waits until there may be a slice; false: never again.
  bool Wait(MutexLock& lock, WorkspaceCache& workspaces) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void WakeAnother() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int workers_;
  const ShortSlices short_slices_;
  const uint64_t id_;
  // Of the workers that run a slice now.
  std::vector<SeenCpu> busy_;
  const bool spreads_;  // there are CPUs for all workers

  mutable Mutex mutex_;
  CondVar wake_;
  BatchQueue queue_ ABSL_GUARDED_BY(mutex_);
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;              // workers that wait
  int signals_ ABSL_GUARDED_BY(mutex_) = 0;           // workers woken that do not run yet
  bool may_be_alone_ ABSL_GUARDED_BY(mutex_) = true;  // one or two callers call, by the last RunCollected
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace rnnserve
