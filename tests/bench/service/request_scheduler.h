// SPDX-License-Identifier: Apache-2.0
// What others do, for comparison: requests run one by one, or whole requests of equal shape run together.
//
//   RequestScheduler one_by_one({.workers = 2});
//   RequestScheduler in_batches({.workers = 2, .shares = true});
//
// First come, first served. A batch takes the oldest request and, with `shares`, all that wait with the same programs
// and the same lengths; it runs to its end, no request joins or leaves, and all are answered together. Deadlines and
// cancellation are checked before a batch begins. No priorities, no fair shares, no bounds. Thread-safe; no lock is
// held while an engine runs or `done` is called. The destructor runs what is queued.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "server/batching/scheduler.h"
#include "server/batching/workspace_cache.h"

namespace rnnserve {

class RequestScheduler final : public Scheduler {
 public:
  struct Options {
    int workers = 1;
    bool shares = false;  // requests of equal shape run together
    // Sequences of a batch, if one request alone has not more.
    int64_t max_batch_rows = 1024;
  };

  explicit RequestScheduler(Options options);
  ~RequestScheduler() override;
  RequestScheduler(const RequestScheduler&) = delete;
  RequestScheduler& operator=(const RequestScheduler&) = delete;

  absl::Status Schedule(Submission&& submission) override;
  QueueLoad load() const override { return {}; }

 private:
  struct Entry {
    Submission submission;
    absl::Time arrived;
    ScheduleOutcome outcome;
  };

  void Work();
  // The oldest entry and those that run with it; with the lock held.
  std::vector<Entry> TakeBatch();
  static void Run(std::vector<Entry>& batch, WorkspaceCache& workspaces);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::deque<Entry> queue_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace rnnserve
