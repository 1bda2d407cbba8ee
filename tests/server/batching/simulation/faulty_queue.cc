// SPDX-License-Identifier: Apache-2.0
#include "tests/server/batching/simulation/faulty_queue.h"

#include <utility>

namespace rnnserve::simulation {
namespace {

// A fault shows every so often, so that it has to be noticed among what goes right.
constexpr int kEvery = 5;

}  // namespace

BatchQueue::Options FaultyQueue::Changed(BatchQueue::Options options, Fault fault) {
  if (fault == Fault::kStarve) options.max_wait = absl::Hours(1);
  if (fault == Fault::kTooManySequences) options.max_sequences += 1;
  if (fault == Fault::kTooManyBytes) options.max_bytes += 1'000;
  if (fault == Fault::kTooManyRows) options.max_slice_rows += 1;
  if (fault == Fault::kLongSlices) options.target_slice *= 10;
  if (fault == Fault::kIdleWhileWorkWaits) options.max_batch_delay += absl::Milliseconds(10);
  return options;
}

void FaultyQueue::HideDeadline(Submission& submission, absl::Time told) {
  Hidden hidden = {submission.deadline, submission.cancelled, std::make_shared<std::atomic<bool>>(false)};
  submission.deadline = told;
  submission.cancelled = hidden.ends;
  submission.done = [done = std::move(submission.done), by_caller = hidden.cancelled](ScheduleOutcome outcome) mutable {
    if (absl::IsCancelled(outcome.status) && !by_caller->load()) outcome.status = absl::DeadlineExceededError("hidden");
    done(std::move(outcome));
  };
  hidden_.push_back(std::move(hidden));
}

void FaultyQueue::KeepHiddenDeadlines(absl::Time now) {
  std::erase_if(hidden_, [&](const Hidden& hidden) {
    const bool ends = hidden.cancelled->load() || hidden.deadline <= now;
    if (ends) hidden.ends->store(true);
    return ends;
  });
}

absl::Status FaultyQueue::Add(Submission& submission, absl::Time now) {
  const bool is_turn = ++calls_ % kEvery == 0;
  if (fault_ == Fault::kLoseSequence && is_turn && submission.tasks.size() > 1) submission.tasks.pop_back();
  if (fault_ == Fault::kDoubleSequence && is_turn) submission.tasks.push_back(SequenceTask(submission.tasks.front()));
  if (fault_ == Fault::kRunCancelled && is_turn) submission.cancelled = nullptr;
  if (fault_ == Fault::kRunExpired && is_turn) submission.deadline = absl::InfiniteFuture();
  if (fault_ == Fault::kIgnorePriority && is_turn) submission.priority = 0;
  if (fault_ == Fault::kUnfair && is_roomy_) submission.caller_id = 0;
  if (fault_ == Fault::kOneTakesAll) submission.caller_id = static_cast<uint64_t>(calls_);
  if (fault_ == Fault::kNoBatching && is_turn) {
    for (SequenceTask& task : submission.tasks) {
      const auto& program = static_cast<const SimulatedProgram&>(*task.program);
      task.program = std::make_shared<SimulatedProgram>(program.index(), program.packed_bytes());
    }
  }
  if (fault_ == Fault::kRunHopeless && submission.deadline > now) {
    HideDeadline(submission, absl::InfiniteFuture());
  }
  if (fault_ == Fault::kBeginTooLate && submission.deadline > now) {
    HideDeadline(submission, submission.deadline + 0.5 * (submission.deadline - now));
  }
  if (fault_ == Fault::kRefuseUnmeasured && submission.deadline - now < absl::Milliseconds(2)) {
    return absl::DeadlineExceededError("a fault refuses it");
  }
  // Once costs have been measured.
  if (fault_ == Fault::kRefuseInTime && calls_ > 50 && submission.deadline != absl::InfiniteFuture()) {
    return absl::DeadlineExceededError("a fault refuses it");
  }
  absl::Status status = queue_.Add(submission, now);
  return fault_ == Fault::kNoRetryDelay ? absl::Status(status.code(), status.message()) : status;
}

std::optional<Slice> FaultyQueue::Form(absl::Time now, int sharers, BatchQueue::Finished& finished) {
  KeepHiddenDeadlines(now);
  std::optional<Slice> slice = queue_.Form(now, sharers, finished);
  if (fault_ == Fault::kForgetState && slice && ++calls_ % kEvery == 0) slice->rows.front().before = nullptr;
  return slice;
}

void FaultyQueue::Complete(Slice slice, double seconds, absl::Time now, BatchQueue::Finished& finished) {
  queue_.Complete(std::move(slice), absl::OkStatus(), seconds, now, finished);
}

std::vector<Job*> FaultyQueue::Told(BatchQueue::Finished& finished) {
  std::vector<Job*> told;
  for (Job& job : finished) {
    const bool is_turn = ++calls_ % kEvery == 0;
    if (fault_ == Fault::kTellNever && is_turn) continue;
    told.push_back(&job);
    if (fault_ == Fault::kTellTwice && is_turn) told.push_back(&job);
  }
  return told;
}

}  // namespace rnnserve::simulation
