// SPDX-License-Identifier: Apache-2.0
// What the batch queue keeps: jobs (submissions), their lanes (the sequences of a job that run through one cell), cells
// (programs with their cost), and slices. Plain data; BatchQueue and LaneOrder hold the rules.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/recycled.h"
#include "server/batching/cost_model.h"
#include "server/batching/scheduler.h"

namespace rnnserve {

struct Job;
struct LaneQueue;

// A program that sequences run through. It stays when no sequence runs through it, to remember its cost.
struct BatchCell {
  BatchCell(const ProgramPtr& identity_of, int64_t step_work)
      : identity(identity_of), cost(identity_of->packed_bytes(), step_work) {}

  std::weak_ptr<const Program> identity;  // another program at the same address is another cell
  ProgramPtr program;                     // null while lanes == 0, so that evicted weights go
  CostModel cost;
  absl::Time looked_at = absl::InfinitePast();  // when a slice of it last ended, or a probe came
  double stretch = 1;                           // from first slice to last: as it was, to as expected
  int64_t lanes = 0;                            // of jobs not finished
  int64_t rows = 0;                             // sequences not finished
  int64_t waiting_rows = 0;                     // of them, in no slice and not held back
  int64_t held_rows = 0;                        // of them, held back by max_batch_delay
  std::vector<LaneQueue*> waiting;              // queues in which lanes wait, the highest priority first
};

// The sequences of one job that run through one cell.
struct Lane {
  Job* job = nullptr;
  BatchCell* cell = nullptr;
  LaneQueue* queue = nullptr;
  uint64_t id = 0;
  absl::InlinedVector<SequenceSlice, 1>
      waiting;                      // what is left of each sequence that is in no slice; taken from the back
  int64_t longest = 0;              // steps of the longest sequence, at the start
  int64_t rows = 0;                 // sequences not finished
  int64_t row_steps = 0;            // not computed yet, of waiting sequences and of those in slices
  double seconds_per_row_step = 0;  // expected, for the backlog
  double finish_tag = 0;            // where it would end if all lanes of its queue shared evenly
  bool is_held = false;
  bool is_urgent = false;  // begun, and would miss its deadline behind others
  bool is_late = false;    // has been overdue: from then on it is so again whenever it waits
  absl::Time waiting_since;
  RecycledList<Lane*>::iterator age;  // its place among the waiting lanes or, if held, among the held ones
};

struct Job {
  Submission submission;
  ScheduleOutcome outcome;
  absl::Time arrived;
  double wait_seconds = 0;  // expected at arrival, if that says something about later estimates
  int64_t sequences = 0;    // at the start
  int64_t running = 0;      // sequences in slices
  int64_t row_steps = 0;    // at the start
  bool started = false;
  absl::Time began;                    // when its first slice did
  double run_seconds = 0;              // from then to its end, as expected then; 0: not known
  bool is_probe = false;               // taken to see whether its cost is still what it was
  uint64_t timed_slice = 0;            // whose time is in the outcome already
  absl::InlinedVector<Lane, 1> lanes;  // they stay where they are once the queue has them
  RecycledList<Job>::iterator place;   // among those that wait or run
  RecycledMultimap<absl::Time, Job*>::iterator by_deadline;
  bool has_deadline = false;
};

// Sequences that run together for some steps.
struct Slice {
  // Consecutive rows of one lane.
  struct Part {
    Lane* lane;
    size_t rows = 0;
    double charged_seconds = 0;
    int64_t row_steps = 0;                // that the slice computes of them
    absl::Status ran = absl::OkStatus();  // if the slice ran in parts
  };

  uint64_t id = 0;  // from 1
  ProgramPtr program;
  std::vector<SequenceSlice> rows;  // what Program::Advance gets
  int64_t steps = 0;                // of the longest row
  int64_t row_steps = 0;            // of all rows together

  bool is_alone = false;  // it is all that waits or runs, and one submission's
  std::vector<Part> parts;
  bool ran_in_parts = false;         // one after the other, so the time it took says nothing
  std::vector<int64_t> steps_after;  // of each row, once this slice is done
};

}  // namespace rnnserve
