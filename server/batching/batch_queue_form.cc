// SPDX-License-Identifier: Apache-2.0
// Forms slices. batch_queue.cc has what happens before and after, batch_queue_deadlines.cc which sequences are left
// out.
#include <algorithm>
#include <cmath>
#include <utility>

#include "server/batching/batch_queue.h"

namespace rnnserve {
namespace {

// The oldest overdue lane, if there is one, leads one slice in this many.
constexpr int kOverdueEvery = 4;
// Where one step of many rows takes longer than a slice should, rows are still taken until the cost of the step that
// does not depend on them is a ninth of it.
constexpr double kRowsForStepCost = 8;
constexpr int64_t kFewRows = 16;
constexpr uint64_t kProbeEvery = 16;
constexpr int64_t kMostRowsLookedAt = 1024;
// A slice may be longer than its target by this factor where that ends all its sequences.
constexpr double kStretch = 1.5;
// Steps of a slice that has all the rows it should: others could not join it if it ended earlier.
constexpr int64_t kStepsIfFull = 32;
constexpr absl::Duration kNearDeadline = absl::Seconds(1);

}  // namespace

absl::Time BatchQueue::next_release() const {
  return held_.empty() ? absl::InfiniteFuture() : held_.front()->job->arrived + options_.max_batch_delay;
}

std::optional<Slice> BatchQueue::Form(absl::Time now, int sharers, Finished& finished) {
  Clock(now);
  DropExpired(finished);
  while (!held_.empty() && next_release() <= now_) Release(*held_.front());
  while (!order_.empty()) {
    Slice slice = TakeSpare();
    Lane* const overdue = Overdue();
    // The leader must be alive: behind a dead leader, the rest of its program may have a lower priority.
    Lane& leader = overdue != nullptr ? *overdue : **order_.Next().waiting.begin();
    if (DropIfExpired(*leader.job, finished)) continue;
    BatchCell* const cell = leader.cell;
    ReleaseCell(*cell);
    const int64_t limit = RowLimit(*cell, sharers);
    if (overdue != nullptr) Take(*overdue, limit, slice);
    Fill(*cell, limit, slice, finished);
    if (slice.rows.empty()) {  // all were dead
      Spare(std::move(slice));
      continue;
    }
    slices_since_overdue_ = overdue != nullptr ? 0 : slices_since_overdue_ + 1;
    Begin(*cell, slice);
    return slice;
  }
  return std::nullopt;
}

BatchQueue::Expected BatchQueue::Next() const {
  if (order_.empty()) return {};
  const BatchCell& cell = *order_.Next().cell;
  const int64_t limit = RowLimit(cell);
  const bool is_too_much = std::min(limit, cell.waiting_rows) > kMostRowsLookedAt;
  if (cell.program->waits() || !cell.cost.is_known() || is_too_much) return {absl::InfiniteDuration()};
  int64_t rows = 0, longest = 0, row_steps = 0;
  const auto expected = [&] {
    const double seconds = cell.cost.Seconds(static_cast<double>(longest), static_cast<double>(row_steps));
    return Expected{absl::Seconds(seconds), rows};
  };
  for (const LaneQueue* queue : cell.waiting) {
    for (const Lane* lane : queue->waiting) {
      for (const SequenceSlice& row : lane->waiting) {
        longest = std::max(longest, row.steps);
        row_steps += row.steps;
        if (++rows >= limit) return expected();
      }
    }
  }
  return expected();
}

// The oldest overdue lane, if it leads the next slice.
Lane* BatchQueue::Overdue() {
  Lane* const oldest = order_.Oldest();
  if (now_ - oldest->waiting_since <= options_.max_wait) {
    slices_since_overdue_ = 0;
    return nullptr;
  }
  return slices_since_overdue_ >= kOverdueEvery - 1 ? oldest : nullptr;
}

void BatchQueue::Release(Lane& lane) {
  held_.erase(lane.age);
  lane.is_held = false;
  lane.cell->held_rows -= lane.rows;
  order_.Enter(lane, now_);
}

void BatchQueue::ReleaseCell(BatchCell& cell) {
  for (auto held = held_.begin(); cell.held_rows > 0;) {
    Lane& lane = **held++;
    if (lane.cell == &cell) Release(lane);
  }
}

// Sequences that a slice of `cell` should have at most. Now and then it may have twice as many: slices that are all
// alike say nothing about what a row costs, and so nothing about how many there should be.
int64_t BatchQueue::RowLimit(const BatchCell& cell) const {
  const double probe = (next_slice_ + 1) % kProbeEvery == 0 ? 2 : 1;
  return static_cast<int64_t>(std::min(probe * GoodRows(cell), static_cast<double>(options_.max_slice_rows)));
}

double BatchQueue::GoodRows(const BatchCell& cell) const {
  const double step = cell.cost.step_seconds(), row = cell.cost.row_seconds();
  const double in_time = (target_seconds_ / static_cast<double>(kGoodSteps) - step) / row;
  return std::max({in_time, kRowsForStepCost * step / row, static_cast<double>(kFewRows)});
}

// The sequences of a program that is alone are spread over all workers, also those that are busy with some of them now:
// else they would find nothing when they come back. Each gets so many that these cost as much as the step itself.
int64_t BatchQueue::RowLimit(const BatchCell& cell, int sharers) const {
  const int64_t limit = RowLimit(cell);
  if (sharers <= 1 || order_.waiting_rows() > cell.waiting_rows) return limit;
  const int64_t share = (cell.rows + sharers - 1) / sharers;
  const double worthwhile = std::min(std::ceil(cell.cost.step_seconds() / cell.cost.row_seconds()), 1e9);
  return std::min(limit, std::max({share, static_cast<int64_t>(worthwhile), int64_t{1}}));
}

void BatchQueue::Fill(BatchCell& cell, int64_t limit, Slice& slice, Finished& finished) {
  while (static_cast<int64_t>(slice.rows.size()) < limit && !cell.waiting.empty()) {
    const int32_t priority = cell.waiting.front()->priority;
    const auto lower = [&](const LaneQueue* queue) { return queue->priority != priority; };
    FillFrom({cell.waiting.begin(), std::find_if(cell.waiting.begin(), cell.waiting.end(), lower)}, limit, slice,
             finished);
    // Left over: the slice is full.
    if (!cell.waiting.empty() && cell.waiting.front()->priority == priority) return;
  }
}

// Takes from the tenants of one priority, first from the one that has used least. Ends with the slice full or the
// queues empty.
void BatchQueue::FillFrom(Queues queues, int64_t limit, Slice& slice, Finished& finished) {
  const auto room = [&] { return limit - static_cast<int64_t>(slice.rows.size()); };
  const auto used_more = [](const LaneQueue* a, const LaneQueue* b) {
    const Usage &x = a->tenant->usage, &y = b->tenant->usage;
    return x.used != y.used ? x.used > y.used : x.id > y.id;
  };
  std::make_heap(queues.begin(), queues.end(), used_more);
  const int64_t share = std::max<int64_t>(1, room() / static_cast<int64_t>(queues.size()));
  while (room() > 0 && !queues.empty()) {
    std::pop_heap(queues.begin(), queues.end(), used_more);
    LaneQueue* const queue = queues.back();
    queues.pop_back();
    Lane& lane = **queue->waiting.begin();
    const bool is_last = queue->waiting.size() == 1;
    bool is_empty = is_last;  // then the queue may be gone
    if (!DropIfExpired(*lane.job, finished)) {
      const int64_t rows = std::min({share, room(), static_cast<int64_t>(lane.waiting.size())});
      is_empty = is_last && rows == static_cast<int64_t>(lane.waiting.size());
      const double expected = target_seconds_ / static_cast<double>(limit);
      Take(lane, rows, slice);
      slice.parts.back().charged_seconds += expected * static_cast<double>(rows);
      order_.Charge(*queue, expected * static_cast<double>(rows));
    }
    if (is_empty) continue;
    queues.push_back(queue);
    std::push_heap(queues.begin(), queues.end(), used_more);
  }
}

void BatchQueue::Take(Lane& lane, int64_t rows, Slice& slice) {
  if (now_ - lane.waiting_since > options_.max_wait) order_.MakeLate(lane);
  rows = std::min(rows, static_cast<int64_t>(lane.waiting.size()));
  slice.rows.insert(slice.rows.end(), lane.waiting.rbegin(), lane.waiting.rbegin() + rows);
  lane.waiting.resize(lane.waiting.size() - static_cast<size_t>(rows));
  if (slice.parts.empty() || slice.parts.back().lane != &lane) slice.parts.push_back({.lane = &lane});
  slice.parts.back().rows += static_cast<size_t>(rows);
  order_.Took(lane, rows);
  if (lane.waiting.empty()) {
    order_.Leave(lane);
  } else {
    order_.Refresh(lane, Since(lane));
  }
}

// Whether nothing is waiting, or expected, that a longer slice of `cell` would delay by much of its time.
bool BatchQueue::IsPatient(const BatchCell& cell) const {
  const bool is_near = !by_deadline_.empty() && by_deadline_.begin()->first - now_ < kNearDeadline;
  return order_.waiting_rows() == cell.waiting_rows && shortest_.Get(now_) >= kGoodSteps && !is_near;
}

// Steps after which the slice should end.
int64_t BatchQueue::StepLimit(const BatchCell& cell, const Slice& slice) const {
  int64_t longest = 0;
  for (const SequenceSlice& row : slice.rows) longest = std::max(longest, row.steps);
  const auto seconds = [&](int64_t steps) {
    double row_steps = 0;
    for (const SequenceSlice& row : slice.rows) row_steps += static_cast<double>(std::min(row.steps, steps));
    return cell.cost.Seconds(static_cast<double>(steps), row_steps);
  };
  const auto most_within = [&](double limit, int64_t most) {
    int64_t fits = 1, too_many = most + 1;
    while (too_many - fits > 1) {
      const int64_t middle = fits + (too_many - fits) / 2;
      (seconds(middle) <= limit ? fits : too_many) = middle;
    }
    return fits;
  };
  if (seconds(longest) <= kStretch * target_seconds_) return longest;
  const int64_t fits = most_within(target_seconds_, longest);
  // As many steps as pay, and as many times the target; but no sequence that ends early waits for long.
  const bool is_full = static_cast<double>(slice.rows.size()) >= std::floor(GoodRows(cell));
  const int64_t most = is_full ? kStepsIfFull : kGoodSteps;
  const int64_t good = std::min({longest, most, 2 * shortest_.Get(now_)});
  return fits >= good || !IsPatient(cell) ? fits : most_within(static_cast<double>(good) * target_seconds_, good);
}

void BatchQueue::Begin(BatchCell& cell, Slice& slice) {
  slice.id = ++next_slice_;
  slice.program = cell.program;
  slice.steps = StepLimit(cell, slice);
  slice.is_alone = jobs_.size() == 1 && static_cast<int64_t>(slice.rows.size()) == cell.rows;
  slice.steps_after.reserve(slice.rows.size());
  auto row = slice.rows.begin();
  for (Slice::Part& part : slice.parts) {
    for (const auto end = row + static_cast<std::ptrdiff_t>(part.rows); row != end; ++row) {
      const int64_t steps = std::min(row->steps, slice.steps);
      slice.steps_after.push_back(row->steps - steps);
      part.row_steps += steps;
      row->steps = steps;
    }
    slice.row_steps += part.row_steps;
    Job& job = *part.lane->job;
    if (!job.started) {
      job.outcome.queue_time = now_ - job.arrived;
      job.began = now_;
      for (const Lane& lane : job.lanes) job.run_seconds = std::max(job.run_seconds, BatchedSeconds(lane));
    }
    job.started = true;
    job.running += static_cast<int64_t>(part.rows);
    job.outcome.largest_batch = std::max(job.outcome.largest_batch, static_cast<int64_t>(slice.rows.size()));
  }
  Charge(slice, cell.cost.Seconds(static_cast<double>(slice.steps), static_cast<double>(slice.row_steps)));
}

}  // namespace rnnserve
