// SPDX-License-Identifier: Apache-2.0
// What others do, for comparison: requests run one by one, or whole requests of equal shape run together.
//
//   RequestScheduler one_by_one({.workers = 2});
//   RequestScheduler in_batches({.workers = 2, .shares = true});
//
// First come, first served. A batch takes the oldest request and, with `shares`, all that wait with the same programs
// and the same lengths; it runs to its end, nobody joins or leaves, and all are answered together. No priorities, no
// fair shares; deadlines and cancellation are looked at before a batch begins. Thread-safe; no lock is held while an
// engine runs or `done` is called. The destructor runs what is queued.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "server/batching/queue_bounds.h"
#include "server/batching/scheduler.h"
#include "server/batching/workspace_cache.h"

namespace rnnserve {

class RequestScheduler final : public Scheduler {
 public:
  struct Options {
    int workers = 1;
    // Whether requests of equal shape run together.
    bool shares = false;
    // As of BatchQueue.
    int64_t max_sequences = 1 << 16;
    int64_t max_bytes = int64_t{1} << 30;
    // Sequences of a batch, if one request alone has not more.
    int64_t max_batch_rows = 1024;
  };

  explicit RequestScheduler(Options options);
  ~RequestScheduler() override;
  RequestScheduler(const RequestScheduler&) = delete;
  RequestScheduler& operator=(const RequestScheduler&) = delete;

  absl::Status Schedule(Submission submission) override;
  QueueLoad load() const override;

  // Answers queued work with UNAVAILABLE; so is all that comes later.
  void Abort();

 private:
  struct Entry {
    Submission submission;
    absl::Time arrived;
    ScheduleOutcome outcome;
  };

  void Work();
  // With the lock held.
  void GiveBack(const Entry& entry);
  // The oldest entry and those that run with it; with the lock held.
  std::vector<Entry> TakeBatch();
  static void Run(std::vector<Entry>& batch, WorkspaceCache& workspaces);

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::deque<Entry> queue_;
  QueueBounds bounds_;
  bool stopping_ = false;
  bool aborted_ = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace rnnserve
