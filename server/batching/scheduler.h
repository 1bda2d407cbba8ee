// SPDX-License-Identifier: Apache-2.0
// Who runs next and with whom. Knows programs, cost and deadlines; no tensors, no gRPC.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/engine.h"

namespace rnnserve {

// One sequence to run to its end.
struct SequenceTask {
  ProgramPtr program;
  SequenceSlice slice;    // all of its steps; the scheduler may cut it
  int64_t step_work = 1;  // multiplications of one step, roughly
};

// How the sequences of one request went.
struct ScheduleOutcome {
  absl::Status status;          // the engine's error, CANCELLED or DEADLINE_EXCEEDED
  absl::Duration queue_time;    // from Schedule to the first slice
  absl::Duration compute_time;  // in the engine
  int64_t largest_batch = 0;    // sequences in the largest slice shared
};

// The sequences of one request. What the slices point to stays valid until `done` has been called.
struct Submission {
  std::vector<SequenceTask> tasks;  // at least one
  int32_t priority = 0;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<const std::atomic<bool>> cancelled;  // may be null
  // Called exactly once if Schedule returned OK, on a thread of the scheduler, holding no lock.
  absl::AnyInvocable<void(ScheduleOutcome)> done;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Never blocks. OK means owned: `done` will be called. RESOURCE_EXHAUSTED when the queue is full; `done` is then not
  // called.
  virtual absl::Status Schedule(Submission submission) = 0;
};

}  // namespace rnnserve
