// SPDX-License-Identifier: Apache-2.0
// Runs the sequences of one submission on the calling thread, slice by slice.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "server/batching/scheduler.h"

namespace rnnserve {

// The scratch memory of one thread, for the programs it ran last. A program whose cache entry has gone elsewhere lives
// on here until others push it out; the bound is small for that reason.
class WorkspaceCache {
 public:
  explicit WorkspaceCache(size_t capacity) : capacity_(capacity) {}
  // Valid until the next call.
  Workspace& For(const ProgramPtr& program);

 private:
  const size_t capacity_;
  std::list<std::pair<ProgramPtr, std::unique_ptr<Workspace>>> entries_;  // the most recent first
};

struct SliceLimits {
  int64_t max_sequences = 1024;
  int64_t max_steps = 8192;  // of all sequences together, roughly
  int64_t max_work = int64_t{1} << 29;  // multiplications, roughly: what large cells are cut by
};

// OK, or why `submission` should not go on: CANCELLED, DEADLINE_EXCEEDED, or UNAVAILABLE if `aborted`.
absl::Status MayGoOn(const Submission& submission, const std::atomic<bool>& aborted);

// Runs all tasks; `status`, `compute_time` and `largest_batch` of `outcome` are filled in.
void RunSubmission(const Submission& submission, const SliceLimits& limits, const std::atomic<bool>& aborted,
                   WorkspaceCache& workspaces, ScheduleOutcome& outcome);

}  // namespace rnnserve
