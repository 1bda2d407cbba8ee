// SPDX-License-Identifier: Apache-2.0
// How submissions come in and jobs end; batch_queue_form.cc forms slices, batch_queue_deadlines.cc says what comes too
// late.
#include "server/batching/batch_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"

namespace rnnserve {
namespace {

constexpr absl::Duration kShortestRetry = absl::Milliseconds(5);
constexpr absl::Duration kLongestRetry = absl::Seconds(30);
// Programs whose cost is remembered while nothing runs through them.
constexpr size_t kIdleCells = 1024;

// A slice counts for the model of its first sequence, steps for each sequence's own.
void Count(const Slice& slice) {
  if (const auto& metrics = slice.parts.front().lane->job->submission.metrics) {
    metrics->slices->Add();
    metrics->slice_sequences->Observe(static_cast<int64_t>(slice.rows.size()));
    metrics->slice_steps->Observe(slice.steps);
  }
  for (const Slice::Part& part : slice.parts) {
    if (const auto& metrics = part.lane->job->submission.metrics) metrics->useful_steps->Add(part.row_steps);
  }
}

}  // namespace

absl::Status BatchQueue::CheckBounds(const Submission& submission) const {
  if (sequences_.used() == 0 || submission.goes_on) return absl::OkStatus();
  const uint64_t caller = submission.caller_id;
  const int64_t rows = static_cast<int64_t>(submission.tasks.size());
  std::string reason;
  if (!sequences_.Fits(caller, rows)) {
    reason = absl::StrCat(sequences_.used(), " of ", sequences_.most(), " sequences are waiting or running, ",
                          sequences_.held(caller), " of them this caller's, and ", rows, " more came");
  } else if (!bytes_.Fits(caller, submission.bytes)) {
    reason = absl::StrCat("requests that wait or run hold ", bytes_.used(), " of ", bytes_.most(), " bytes, ",
                          bytes_.held(caller), " of them this caller's, and ", submission.bytes, " more came");
  } else {
    return absl::OkStatus();
  }
  // Once half of the work is done there is room for many callers, not only for the first that retries.
  const absl::Duration drained = absl::Seconds(order_.BacklogSeconds() * slowdown_ / options_.workers / 2);
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", reason, "; send the request again later")),
      std::clamp(drained, kShortestRetry, kLongestRetry));
}

BatchCell& BatchQueue::CellOf(const SequenceTask& task) {
  const ProgramPtr& program = task.program;
  std::unique_ptr<BatchCell>& cell = cells_[program.get()];
  // Only one program lives at an address. Asked without a lock, since other threads count references as well.
  if (cell != nullptr && !cell->identity.expired()) return *cell;
  // New here, or at the address of one that has gone.
  cell = std::make_unique<BatchCell>(program, task.step_work);
  return *cell;
}

// One lane for each program, longest sequences last: they are taken first, so that a job's rows end together.
void BatchQueue::MakeLanes(const Submission& submission, Job& job) {
  const Program* last_program = nullptr;
  Lane* lane = nullptr;  // the last one used, until another is made
  for (const SequenceTask& task : submission.tasks) {
    if (task.program.get() != last_program) {
      last_program = task.program.get();
      BatchCell& cell = CellOf(task);
      const auto found =
          std::find_if(job.lanes.begin(), job.lanes.end(), [&](const Lane& other) { return other.cell == &cell; });
      lane = found != job.lanes.end() ? &*found : &job.lanes.emplace_back();
      lane->cell = &cell;
    }
    lane->waiting.push_back(task.slice);
    lane->longest = std::max(lane->longest, task.slice.steps);
    lane->row_steps += task.slice.steps;
  }
  for (Lane& made : job.lanes) {
    made.job = &job;
    made.rows = static_cast<int64_t>(made.waiting.size());
    if (made.waiting.size() > 1) {
      std::stable_sort(made.waiting.begin(), made.waiting.end(),
                       [](const SequenceSlice& a, const SequenceSlice& b) { return a.steps < b.steps; });
    }
    const CostModel& cost = made.cell->cost;
    // With other sequences the cost of a step is split among the rows of full slices.
    const double steps = made.cell->rows == 0
                             ? static_cast<double>(made.longest)
                             : static_cast<double>(made.row_steps) / static_cast<double>(RowLimit(*made.cell));
    made.seconds_per_row_step = cost.Seconds(steps, static_cast<double>(made.row_steps)) /
                                static_cast<double>(std::max<int64_t>(made.row_steps, 1));
  }
}

absl::Status BatchQueue::Add(Submission& submission, absl::Time now) {
  Clock(now);
  absl::Status status = CheckBounds(submission);
  if (!status.ok()) return status;
  ForgetIdleCells();
  RecycledList<Job> made(1);
  Job& job = made.front();
  MakeLanes(submission, job);
  status = CheckDeadline(submission, job);
  if (!status.ok()) return status;

  job.sequences = static_cast<int64_t>(submission.tasks.size());
  for (const Lane& lane : job.lanes) job.row_steps += lane.row_steps;
  shortest_.Saw(job.row_steps / std::max<int64_t>(job.sequences, 1), now_);
  job.arrived = std::min(submission.scheduled, now_);
  sequences_.Take(submission.caller_id, job.sequences);
  bytes_.Take(submission.caller_id, submission.bytes);
  for (Lane& lane : job.lanes) {
    if (lane.cell->lanes++ == 0) lane.cell->program = lane.cell->identity.lock();  // the tasks have it still
  }
  submission.tasks.clear();
  job.place = made.begin();
  jobs_.splice(jobs_.end(), made);
  if (submission.deadline != absl::InfiniteFuture()) {
    job.by_deadline = by_deadline_.emplace(submission.deadline, &job);
    job.has_deadline = true;
  }
  job.submission = std::move(submission);
  // A submission with a near deadline does not wait for others.
  const bool is_held =
      options_.max_batch_delay > absl::ZeroDuration() && job.submission.deadline - now_ > 2 * options_.max_batch_delay;
  for (Lane& lane : job.lanes) {
    lane.id = next_id_++;
    lane.cell->rows += lane.rows;
    order_.Join(lane);
    order_.AddBacklog(lane, lane.seconds_per_row_step * static_cast<double>(lane.row_steps));
    if (is_held) {
      lane.is_held = true;
      lane.age = held_.insert(held_.end(), &lane);
      lane.cell->held_rows += lane.rows;
      if (lane.cell->held_rows + lane.cell->waiting_rows >= RowLimit(*lane.cell)) ReleaseCell(*lane.cell);
    } else {
      order_.Enter(lane, now_);
    }
  }
  return absl::OkStatus();
}

void BatchQueue::Complete(Slice slice, const absl::Status& ran, double seconds, absl::Time now, Finished& finished) {
  Clock(now);
  BatchCell& cell = *slice.parts.front().lane->cell;
  if (ran.ok()) {
    if (!slice.ran_in_parts) cell.cost.Learn(slice.steps, slice.row_steps, seconds);
    cell.looked_at = now_;
    Count(slice);
  }
  Charge(slice, seconds);
  size_t row = 0;
  for (const Slice::Part& part : slice.parts) {
    Return(part, row, slice);
    row += part.rows;
    Job& job = *part.lane->job;
    if (std::exchange(job.timed_slice, slice.id) != slice.id) job.outcome.compute_time += absl::Seconds(seconds);
    job.running -= static_cast<int64_t>(part.rows);
    const bool is_dead = !job.outcome.status.ok();
    const bool is_done =
        std::all_of(job.lanes.begin(), job.lanes.end(), [](const Lane& lane) { return lane.rows == 0; });
    const absl::Status& status = ran.ok() ? part.ran : ran;
    if (!status.ok() && !is_dead) {
      FailJob(job, status, finished);
    } else if (is_done && job.running == 0) {
      Retire(job, finished);
    }
  }
  Spare(std::move(slice));
}

Slice BatchQueue::TakeSpare() {
  if (spare_slices_.empty()) return {};
  Slice slice = std::move(spare_slices_.back());
  spare_slices_.pop_back();
  return slice;
}

void BatchQueue::Spare(Slice slice) {
  if (spare_slices_.size() > static_cast<size_t>(options_.workers)) return;
  Slice& spare = spare_slices_.emplace_back();
  spare.rows = std::move(slice.rows);
  spare.parts = std::move(slice.parts);
  spare.steps_after = std::move(slice.steps_after);
  spare.rows.clear();
  spare.parts.clear();
  spare.steps_after.clear();
}

// Puts the sequences of `part` back, or lets them go.
void BatchQueue::Return(const Slice::Part& part, size_t first_row, Slice& slice) {
  Lane& lane = *part.lane;
  const int64_t served = part.row_steps;
  order_.Served(*lane.queue, served);
  if (!lane.job->outcome.status.ok()) return;
  order_.AddBacklog(lane, -lane.seconds_per_row_step * static_cast<double>(served));
  lane.row_steps -= served;
  int64_t back = 0;
  for (size_t row = first_row + part.rows; row-- > first_row;) {
    SequenceSlice& rest = slice.rows[row];
    const int64_t done = rest.steps;
    rest.steps = slice.steps_after[row];
    if (rest.steps == 0) continue;
    rest.x += rest.x_stride * done;
    if (rest.y != nullptr) rest.y += rest.y_stride * done;
    rest.before = rest.after;
    lane.waiting.push_back(rest);
    ++back;
  }
  const int64_t gone = static_cast<int64_t>(part.rows) - back;
  lane.rows -= gone;
  lane.cell->rows -= gone;
  if (back == 0) return;
  if (lane.queue->waiting.count(&lane) > 0) {
    order_.Took(lane, -back);
  } else {
    order_.Enter(lane, Since(lane));
  }
}

// Charges the slice's time to the lanes that were in it, by their share of the work.
void BatchQueue::Charge(Slice& slice, double seconds) {
  for (Slice::Part& part : slice.parts) {
    const double charge = seconds * static_cast<double>(part.row_steps) / static_cast<double>(slice.row_steps);
    order_.Charge(*part.lane->queue, charge - part.charged_seconds);
    part.charged_seconds = charge;
  }
}

// Takes everything of `job` that waits out of the queue.
void BatchQueue::FailJob(Job& job, absl::Status status, Finished& finished) {
  job.outcome.status = std::move(status);
  for (Lane& lane : job.lanes) {
    order_.AddBacklog(lane, -lane.seconds_per_row_step * static_cast<double>(lane.row_steps));
    if (lane.is_held) {
      held_.erase(lane.age);
      lane.is_held = false;
      lane.cell->held_rows -= lane.rows;
    } else {
      order_.Leave(lane);
    }
    lane.cell->rows -= lane.rows;
    lane.row_steps = lane.rows = 0;
    lane.waiting.clear();
  }
  if (job.has_deadline) by_deadline_.erase(job.by_deadline);
  job.has_deadline = false;
  if (job.running == 0) Retire(job, finished);
}

void BatchQueue::Retire(Job& job, Finished& finished) {
  if (job.has_deadline) by_deadline_.erase(job.by_deadline);
  for (Lane& lane : job.lanes) {
    order_.Part(lane);
    if (--lane.cell->lanes == 0) lane.cell->program.reset();
  }
  sequences_.Release(job.submission.caller_id, job.sequences);
  bytes_.Release(job.submission.caller_id, job.submission.bytes);
  if (job.outcome.status.ok()) {
    LearnWait(job, now_, /*is_done=*/true);
    LearnStretch(job, /*is_done=*/true);
  }
  if (cursor_ == job.place) ++cursor_;
  finished.splice(finished.end(), jobs_, job.place);
}

void BatchQueue::ForgetIdleCells() {
  if (cells_.size() < next_cell_sweep_) return;
  absl::erase_if(cells_, [](const auto& entry) { return entry.second->lanes == 0; });
  next_cell_sweep_ = 2 * cells_.size() + kIdleCells;
}

void BatchQueue::Fail(const absl::Status& status, Finished& finished) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    Job& next = *job++;  // FailJob may take it off the list
    if (next.outcome.status.ok()) FailJob(next, status, finished);
  }
}

}  // namespace rnnserve
