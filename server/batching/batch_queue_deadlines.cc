// SPDX-License-Identifier: Apache-2.0
// Requests that would end too late: on arrival, while waiting, and once begun. Compute for them is lost to requests
// that could end in time, and beyond capacity that ruins goodput. So a request begins only if it is expected to end in
// time, and one that has begun goes before new requests when its deadline is near.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/batching/batch_queue.h"

namespace rnnserve {
namespace {

// Jobs checked for cancellation at each slice, besides those that are about to run.
constexpr size_t kSweptJobs = 16;
// Estimates of waiting err on this side, so that admitted requests end in time.
constexpr double kWaitMargin = 1.25;
constexpr double kMostSlowdown = 10;
constexpr double kSlowdownRate = 0.02;
// More for those that took longer than expected than for the others, so that most take less.
constexpr double kStretchUp = 0.1;
constexpr double kStretchDown = 0.005;
constexpr double kMostStretch = 4;
// An estimate older than this refuses no request without letting one try: what is refused says nothing about its cost,
// and a machine that was slow for a while would be taken for slow for ever.
constexpr absl::Duration kProbeAfter = absl::Seconds(1);
// A begun job is urgent when its slack is less than this share of its remaining time.
constexpr double kUrgentSlack = 0.5;

}  // namespace

// Refuses what would surely come too late, before anything is computed; the estimate is only trusted once the cost of
// every program in it has been measured.
absl::Status BatchQueue::CheckDeadline(const Submission& submission, Job& job) const {
  if (submission.deadline == absl::InfiniteFuture()) return absl::OkStatus();
  if (submission.deadline <= now_) {
    return absl::DeadlineExceededError("the deadline had passed before the request was queued");
  }
  double own = 0, alone = 0;
  for (const Lane& lane : job.lanes) {
    const CostModel& cost = lane.cell->cost;
    if (!cost.is_known()) return absl::OkStatus();
    own += lane.seconds_per_row_step * static_cast<double>(lane.row_steps);
    alone = std::max(alone, cost.Seconds(static_cast<double>(lane.longest), static_cast<double>(lane.longest)));
  }
  const double ahead = order_.SecondsAhead(submission.priority, submission.caller_id, own);
  const double wait = (ahead + std::max(own - alone, 0.0)) / options_.workers;
  if (wait > 2 * alone) job.wait_seconds = wait;
  const absl::Duration expected = absl::Seconds(alone + wait * slowdown_ * kWaitMargin);
  if (now_ + expected <= submission.deadline) return absl::OkStatus();
  const bool is_old = std::ranges::any_of(
      job.lanes, [&](const Lane& lane) { return lane.cell->lanes == 0 && now_ - lane.cell->looked_at > kProbeAfter; });
  if (is_old) {
    for (Lane& lane : job.lanes) lane.cell->looked_at = now_;
    job.is_probe = true;
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("the deadline cannot be met: the request would take about ",
                   absl::FormatDuration(absl::Trunc(expected, absl::Microseconds(1))), ", and ",
                   absl::FormatDuration(absl::Trunc(submission.deadline - now_, absl::Microseconds(1))), " are left"));
}

// Jobs that were given up would have taken longer still: without them only the lucky ones would count.
void BatchQueue::LearnWait(const Job& job, absl::Time end, bool is_done) {
  if (job.wait_seconds <= 0) return;
  const double ratio = absl::ToDoubleSeconds(end - job.arrived) / job.wait_seconds;
  if (!is_done && ratio < slowdown_) return;
  slowdown_ = std::clamp(slowdown_ + kSlowdownRate * (ratio - slowdown_), 1.0, kMostSlowdown);
}

void BatchQueue::LearnStretch(const Job& job, bool is_done) {
  if (job.run_seconds <= 0) return;
  int64_t left = 0;
  for (const Lane& lane : job.lanes) left += lane.row_steps;
  if (left == job.row_steps) return;
  const double done = static_cast<double>(job.row_steps - left) / static_cast<double>(job.row_steps);
  // Another program's slice may come between, however short this one is.
  const double expected = job.run_seconds * done + target_seconds_;
  const double ratio = absl::ToDoubleSeconds(now_ - job.began) / expected;
  for (const Lane& lane : job.lanes) {
    double& stretch = lane.cell->stretch;
    if (!is_done && ratio < stretch) continue;
    stretch =
        std::clamp(stretch + (ratio > stretch ? kStretchUp : kStretchDown) * (ratio - stretch), 1.0, kMostStretch);
  }
}

// The mean of its sequences once it has begun: they are taken in turns, so they end together.
double BatchQueue::StepsLeft(const Lane& lane) {
  if (!lane.job->started || lane.rows == 0) return static_cast<double>(lane.longest);
  return static_cast<double>(lane.row_steps) / static_cast<double>(lane.rows);
}

double BatchQueue::BatchedSeconds(const Lane& lane) const {
  const CostModel& cost = lane.cell->cost;
  const int64_t each = (lane.cell->rows + options_.workers - 1) / options_.workers;
  const double rows = static_cast<double>(std::clamp<int64_t>(each, 1, RowLimit(*lane.cell)));
  const double steps = StepsLeft(lane), row_steps = static_cast<double>(lane.row_steps);
  // One slice after the other; and, where it has more rows than fit into one, several side by side.
  return std::max(cost.Seconds(steps, steps * rows), cost.Seconds(row_steps / rows, row_steps) / options_.workers);
}

void BatchQueue::DropExpired(Finished& finished) {
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now_) {
    Job& job = *by_deadline_.begin()->second;
    LearnWait(job, now_, /*is_done=*/false);
    LearnStretch(job, /*is_done=*/false);
    FailJob(job, absl::DeadlineExceededError("the deadline passed before the computation was done"), finished);
  }
  const size_t swept = std::min(kSweptJobs, jobs_.size());  // none of them twice
  for (size_t k = 0; k < swept && !jobs_.empty(); ++k) {
    if (cursor_ == jobs_.end()) cursor_ = jobs_.begin();
    Job& job = *cursor_++;
    if (!DropIfExpired(job, finished)) MakeUrgentIfLate(job);
  }
}

// Whether `job` must not run, or not any more; what is expected to come too late is not begun. Its lanes are gone then,
// and perhaps their queues.
bool BatchQueue::DropIfExpired(Job& job, Finished& finished) {
  if (!job.outcome.status.ok()) return true;
  const Submission& submission = job.submission;
  if (submission.cancelled != nullptr && submission.cancelled->load(std::memory_order_relaxed)) {
    FailJob(job, absl::CancelledError("the caller cancelled the request"), finished);
    return true;
  }
  if (job.started || job.is_probe || !job.has_deadline) return false;
  const double left = absl::ToDoubleSeconds(submission.deadline - now_);
  for (const Lane& lane : job.lanes) {
    BatchCell& cell = *lane.cell;
    if (!cell.cost.is_known() || lane.rows == 0) continue;
    const double batched = BatchedSeconds(lane);
    if (batched * cell.stretch <= left) continue;
    // A job that never begins says nothing about how long it would have taken.
    if (batched <= left) cell.stretch += kStretchDown * (1 - cell.stretch);
    LearnWait(job, submission.deadline, /*is_done=*/false);
    LearnStretch(job, /*is_done=*/false);
    FailJob(job, absl::DeadlineExceededError("the deadline cannot be met any more after waiting for others"), finished);
    return true;
  }
  return false;
}

// Puts a begun job first among its caller's sequences of the cell where it would end too late otherwise.
void BatchQueue::MakeUrgentIfLate(Job& job) {
  if (!job.started || !job.has_deadline) return;
  const double left = absl::ToDoubleSeconds(job.submission.deadline - now_);
  for (Lane& lane : job.lanes) {
    if (lane.is_urgent || lane.waiting.empty()) continue;
    const double expected = BatchedSeconds(lane) * lane.cell->stretch;
    if (expected * (1 + kUrgentSlack) >= left) order_.MakeUrgent(lane);
  }
}

}  // namespace rnnserve
