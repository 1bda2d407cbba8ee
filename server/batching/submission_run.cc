// SPDX-License-Identifier: Apache-2.0
#include "server/batching/submission_run.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "absl/time/clock.h"

namespace rnnserve {
namespace {

// Few steps a slice would make the engine gather and scatter more than it computes, unless the cell is large.
constexpr int64_t kMinSliceSteps = 16;
// Fewer sequences would read large weights too often.
constexpr int64_t kMinSliceSequences = 64;

// What is left of a sequence after its first `steps` steps.
void DropSteps(int64_t steps, SequenceSlice& rest) {
  rest.steps -= steps;
  if (rest.steps == 0) return;
  rest.x += rest.x_stride * steps;
  if (rest.y != nullptr) rest.y += rest.y_stride * steps;
  rest.before = rest.after;
}

// Sequences of one program that run together.
struct Batch {
  ProgramPtr program;
  int64_t step_work = 1;
  std::vector<SequenceSlice> sequences;
};

int64_t MaxSequences(const SliceLimits& limits, int64_t step_work) {
  const int64_t affordable = std::max(limits.max_work / step_work, kMinSliceSequences);
  return std::max<int64_t>(std::min(limits.max_sequences, affordable), 1);
}

int64_t MaxSteps(const SliceLimits& limits, const Batch& batch) {
  const auto rows = static_cast<int64_t>(batch.sequences.size());
  const int64_t affordable = std::max<int64_t>(limits.max_work / batch.step_work / rows, 1);
  return std::min(std::max(kMinSliceSteps, limits.max_steps / rows), affordable);
}

// The submission's tasks by program, each batch within the limits.
std::vector<Batch> Batches(const std::vector<SequenceTask>& tasks, const SliceLimits& limits) {
  std::map<const Program*, size_t> open;  // index of the batch that still has room
  std::vector<Batch> batches;
  for (const SequenceTask& task : tasks) {
    const int64_t step_work = std::max<int64_t>(task.step_work, 1);
    const auto [found, is_new] = open.try_emplace(task.program.get(), batches.size());
    const bool is_full = !is_new && static_cast<int64_t>(batches[found->second].sequences.size()) >=
                                        MaxSequences(limits, step_work);
    if (is_full) found->second = batches.size();
    if (is_new || is_full) batches.push_back({task.program, step_work, {}});
    batches[found->second].sequences.push_back(task.slice);
  }
  return batches;
}

}  // namespace

Workspace& WorkspaceCache::For(const ProgramPtr& program) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->first != program) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return *entries_.front().second;
  }
  if (entries_.size() >= capacity_) entries_.pop_back();
  entries_.emplace_front(program, program->NewWorkspace());
  return *entries_.front().second;
}

absl::Status MayGoOn(const Submission& submission, const std::atomic<bool>& aborted) {
  if (aborted.load(std::memory_order_relaxed)) {
    return absl::UnavailableError("the server is shutting down; send the request to another one or later");
  }
  // The deadline first: a transport cancels a call whose deadline has passed, and the caller should read the cause.
  if (submission.deadline != absl::InfiniteFuture() && absl::Now() >= submission.deadline) {
    return absl::DeadlineExceededError("the deadline passed before the computation was done");
  }
  if (submission.cancelled != nullptr && submission.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the caller cancelled the request");
  }
  return absl::OkStatus();
}

void RunSubmission(const Submission& submission, const SliceLimits& limits, const std::atomic<bool>& aborted,
                   WorkspaceCache& workspaces, ScheduleOutcome& outcome) {
  std::vector<SequenceSlice> slice;
  for (Batch& batch : Batches(submission.tasks, limits)) {
    std::vector<SequenceSlice>& rest = batch.sequences;
    Workspace& workspace = workspaces.For(batch.program);
    while (!rest.empty()) {
      outcome.status = MayGoOn(submission, aborted);
      if (!outcome.status.ok()) return;
      const int64_t rows = static_cast<int64_t>(rest.size());
      const int64_t steps = MaxSteps(limits, batch);
      slice = rest;
      for (SequenceSlice& sequence : slice) sequence.steps = std::min(sequence.steps, steps);

      const absl::Time start = absl::Now();
      outcome.status = batch.program->Advance(slice, workspace);
      outcome.compute_time += absl::Now() - start;
      outcome.largest_batch = std::max(outcome.largest_batch, rows);
      if (!outcome.status.ok()) return;

      for (size_t k = 0; k < rest.size(); ++k) DropSteps(slice[k].steps, rest[k]);
      std::erase_if(rest, [](const SequenceSlice& sequence) { return sequence.steps == 0; });
    }
  }
}

}  // namespace rnnserve
