// SPDX-License-Identifier: Apache-2.0
// Decides which sequences run next, and together: cellular batching (Gao et al., "Low Latency RNN Inference with
// Cellular Batching", EuroSys 2018) as a pure, single-threaded policy. CellularScheduler runs it with threads, the
// simulator without.
//
//   BatchQueue queue({.workers = 2});
//   BatchQueue::Finished finished;
//   absl::Status owned = queue.Add(submission, now);                  // owns it, or says why not
//   while (auto slice = queue.Form(now, sharers, finished)) {
//     absl::Status ran = slice->program->Advance(slice->rows, workspace);
//     queue.Complete(*std::move(slice), ran, seconds, now, finished);
//   }
//   for (Job& job : finished) job.submission.done(std::move(job.outcome));
//
// Sequences wait under their program. A slice takes waiting sequences of one program, of all callers together, for as
// many steps as are expected to end within `target_slice`. At the end of a slice finished sequences leave and waiting
// ones join. Nothing is padded, and no sequence waits for a batch to fill unless `max_batch_delay` says so. LaneOrder
// chooses the next lane. Expired and cancelled sequences are in no slice.
//
// Time never goes back: an earlier `now` counts as the latest one seen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/admission/fair_bound.h"
#include "server/batching/job.h"
#include "server/batching/lane_order.h"
#include "server/batching/recent_least.h"

namespace rnnserve {

class BatchQueue {
 public:
  struct Options {
    // Threads that run slices, for estimates of waiting time.
    int workers = 1;
    // Bounds of the sequences that wait or run, and of the bytes their submissions hold. The queue refuses a submission
    // that does not fit, unless it is the only one. No tenant gets all of a bound (FairBound).
    int64_t max_sequences = 1 << 16;
    int64_t max_bytes = int64_t{1} << 30;
    // Sequences of a slice: bounds the memory of a workspace.
    int64_t max_slice_rows = 1024;
    // Target duration of a slice: the time that new sequences wait for running ones. Below a millisecond the cost of
    // forming slices and moving states shows.
    absl::Duration target_slice = absl::Milliseconds(1);
    // A lane that has waited this long is overdue, and stays so whenever it waits. The oldest overdue lane leads at
    // least every fourth slice, whatever the priorities. So an overdue lane runs slice after slice, not once in
    // `max_wait`.
    absl::Duration max_wait = absl::Seconds(1);
    // How long new sequences wait for others of their program, unless their deadline is near. 0: not at all.
    absl::Duration max_batch_delay = absl::ZeroDuration();
  };
  using Finished = RecycledList<Job>;

  explicit BatchQueue(Options options)
      : options_(options),
        target_seconds_(absl::ToDoubleSeconds(options.target_slice)),
        sequences_(options.max_sequences),
        bytes_(options.max_bytes) {}

  // OK: the queue owns `submission`; a later call returns its job as finished. Otherwise `submission` is unchanged; the
  // codes are those of Scheduler::Schedule.
  absl::Status Add(Submission& submission, absl::Time now);

  // The next slice; none if nothing can run now. A program that is alone is spread over `sharers` workers where that
  // pays.
  std::optional<Slice> Form(absl::Time now, int sharers, Finished& finished);

  struct Expected {
    absl::Duration takes;  // infinite if the cost is not known yet or too many sequences wait to look through
    int64_t rows = 0;
  };
  // The next slice of a single worker. Zero if nothing waits.
  Expected Next() const;

  // `slice` came from Form and ran for `seconds`.
  void Complete(Slice slice, const absl::Status& ran, double seconds, absl::Time now, Finished& finished);

  // Ends every job with `status`; those in slices when these complete.
  void Fail(const absl::Status& status, Finished& finished);

  // Whether Form might make a slice.
  bool has_waiting() const { return !order_.empty(); }
  // When max_batch_delay next releases a sequence; infinite future if it holds none back.
  absl::Time next_release() const;
  bool empty() const { return jobs_.empty(); }
  QueueLoad load() const { return {sequences_.used(), static_cast<int64_t>(jobs_.size()), bytes_.used()}; }

 private:
  absl::Time Clock(absl::Time now) { return now_ = std::max(now_, now); }

  // Admission.
  absl::Status CheckBounds(const Submission& submission) const;
  absl::Status CheckDeadline(const Submission& submission, Job& job) const;
  BatchCell& CellOf(const SequenceTask& task);
  void ForgetIdleCells();
  void MakeLanes(const Submission& submission, Job& job);

  // Forming.
  void DropExpired(Finished& finished);
  bool DropIfExpired(Job& job, Finished& finished);
  // Of the longest sequence of `lane`, and how long they take from now on, in slices with all of its cell.
  static double StepsLeft(const Lane& lane);
  double BatchedSeconds(const Lane& lane) const;
  void MakeUrgentIfLate(Job& job);
  void LearnStretch(const Job& job, bool is_done);
  void LearnWait(const Job& job, absl::Time end, bool is_done);
  void Release(Lane& lane);
  // The time from which a lane that begins to wait now counts as waiting.
  absl::Time Since(const Lane& lane) const { return lane.is_late ? now_ - options_.max_wait : now_; }
  void ReleaseCell(BatchCell& cell);
  int64_t RowLimit(const BatchCell& cell) const;
  int64_t RowLimit(const BatchCell& cell, int sharers) const;
  // Rows with which the cost of a step that does not depend on them is small.
  double GoodRows(const BatchCell& cell) const;
  Lane* Overdue();
  void Fill(BatchCell& cell, int64_t limit, Slice& slice, Finished& finished);
  using Queues = absl::InlinedVector<LaneQueue*, 8>;
  void FillFrom(Queues queues, int64_t limit, Slice& slice, Finished& finished);
  void Take(Lane& lane, int64_t rows, Slice& slice);
  // Slices that have run keep the room of their vectors for the next ones.
  Slice TakeSpare();
  void Spare(Slice slice);
  bool IsPatient(const BatchCell& cell) const;
  int64_t StepLimit(const BatchCell& cell, const Slice& slice) const;
  void Begin(BatchCell& cell, Slice& slice);

  // Ending.
  void Charge(Slice& slice, double seconds);
  void Return(const Slice::Part& part, size_t first_row, Slice& slice);
  void FailJob(Job& job, absl::Status status, Finished& finished);
  void Retire(Job& job, Finished& finished);

  // Steps that should fit into a slice: moving states does not show, and the weights of W are read once for all of
  // them.
  static constexpr int64_t kGoodSteps = 8;

  const Options options_;
  const double target_seconds_;  // of a slice
  absl::Time now_ = absl::InfinitePast();
  LaneOrder order_;
  absl::flat_hash_map<const Program*, std::unique_ptr<BatchCell>> cells_;
  RecycledList<Job> jobs_;
  RecycledList<Job>::iterator cursor_ = jobs_.end();  // next to be looked at for cancellation
  RecycledMultimap<absl::Time, Job*> by_deadline_;
  RecycledList<Lane*> held_;     // in the order of arrival
  FairBound sequences_, bytes_;  // of jobs_
  uint64_t next_id_ = 0;
  uint64_t next_slice_ = 0;
  std::vector<Slice> spare_slices_;
  int slices_since_overdue_ = 0;
  RecentLeast shortest_;  // steps a sequence of the submissions that came
  size_t next_cell_sweep_ = 1024;
  double slowdown_ = 1;  // measured waiting time over the estimate
};

}  // namespace rnnserve
