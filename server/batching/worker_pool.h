// SPDX-License-Identifier: Apache-2.0
// A small pool of workers behind one bounded queue: the simplest scheduler that keeps every promise of the seam.
//
//   auto pool = std::make_unique<WorkerPool>(WorkerPool::Options{.workers = 2});
//   absl::Status queued = pool->Schedule(std::move(submission));   // never blocks
//
// A worker takes one submission at a time, the highest priority first and the oldest within a priority, and runs its
// sequences together, program by program, in slices of bounded size. Cancelled and expired work leaves between slices,
// and before the first one without having cost anything. Sequences of different submissions do not share slices.
//
// Thread-safe. No lock is held while an engine runs or `done` is called. The destructor runs what is queued; call
// Abort first to fail it instead.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "server/batching/scheduler.h"

namespace rnnserve {

class WorkerPool final : public Scheduler {
 public:
  struct Options {
    // Threads that run engines; each program runs on one thread at a time within a submission. At least 1.
    int workers = 2;
    // Sequences waiting, all submissions together; a submission that does not fit is refused.
    int64_t max_queued_sequences = 1 << 16;
    // Sequences that one slice holds at most: bounds the memory of a workspace.
    int64_t max_slice_sequences = 1024;
    // Steps of all sequences of a slice together, and their multiplications, roughly: bound how long cancelled work
    // goes on.
    int64_t max_slice_steps = 8192;
    int64_t max_slice_work = int64_t{1} << 29;
  };

  explicit WorkerPool(Options options);
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  absl::Status Schedule(Submission submission) override;

  // Answers queued work, and running work after its current slice, with UNAVAILABLE; so is all that comes later.
  void Abort();

  // Sequences waiting now.
  int64_t queued_sequences() const;

 private:
  struct Entry {
    Submission submission;
    absl::Time queued_at;
  };

  void Work();

  const Options options_;
  std::atomic<bool> aborted_ = false;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::map<int32_t, std::deque<Entry>, std::greater<>> queue_;  // by priority
  int64_t queued_sequences_ = 0;
  bool stopping_ = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace rnnserve
