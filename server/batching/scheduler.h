// SPDX-License-Identifier: Apache-2.0
// Decides which sequences run next, and together. Knows programs, cost and deadlines; no tensors, no gRPC.
//
// A unary call is one Submission with a task for each row and direction. A chunk of a session is one too, with a task
// for each row:
//
//   task.program       the session's; it shares batches with all sequences of the same program
//   task.slice.before  the row's committed state, never written
//   task.slice.after   a fresh state of the same program, which becomes the committed one once `done` says OK
//
// The first slice of a sequence reads `before`, later ones go on in `after`, so a chunk that fails, expires or is
// cancelled leaves the committed state as it was. Tasks run in any order and side by side: schedule the next chunk of a
// row from, or after, the `done` of the one before. `done` may call Schedule.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/recycled.h"
#include "engine/engine.h"
#include "server/admission/request_origin.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {

// One sequence to run to its end.
struct SequenceTask {
  ProgramPtr program;
  SequenceSlice slice;    // all of its steps; the scheduler may cut it
  int64_t step_work = 1;  // multiplications of one step, roughly: what a first slice is measured out by
};

using SequenceTasks = RecycledVector<SequenceTask>;

// How the sequences of one request went.
struct ScheduleOutcome {
  absl::Status status;               // the engine's error, CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, or a refusal
  absl::Duration queue_time = {};    // from Schedule to the first slice
  absl::Duration compute_time = {};  // of all slices that held one of its sequences
  int64_t largest_batch = 0;         // sequences in the largest slice shared
};

// The sequences of one request. What the slices point to stays valid until `done` has been called.
struct Submission : RequestOrigin {
  SequenceTasks tasks;  // at least one
  int64_t bytes = 0;    // memory that the request holds until `done`, for the bound on bytes
  // The next part of a request that was admitted before: a full queue does not refuse it.
  bool goes_on = false;
  absl::Time scheduled = absl::InfiniteFuture();  // if that was before it is queued
  std::shared_ptr<const WorkMetrics> metrics;     // where slices are counted; may be null
  // Called exactly once if Schedule returned OK, on a thread that runs slices, holding no lock.
  absl::AnyInvocable<void(ScheduleOutcome)> done;
};

// What waits or runs.
struct QueueLoad {
  int64_t sequences = 0;
  int64_t submissions = 0;  // theirs
  int64_t bytes = 0;        // of them
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Never blocks. OK means owned: `done` will be called. Otherwise `submission` stays as it is: RESOURCE_EXHAUSTED
  // (with a retry delay, see retry_delay.h) when the queue is full, DEADLINE_EXCEEDED when the deadline cannot be met,
  // UNAVAILABLE when shutting down. A scheduler may say so by `done` instead.
  virtual absl::Status Schedule(Submission&& submission) = 0;
  virtual QueueLoad load() const = 0;
};

}  // namespace rnnserve
