// SPDX-License-Identifier: Apache-2.0
#include "server/batching/submission_run.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "absl/time/clock.h"

namespace rnnserve {
namespace {

// Few steps a slice would make the engine gather and scatter more than it computes.
constexpr int64_t kMinSliceSteps = 16;

// What is left of a sequence after its first `steps` steps.
void DropSteps(int64_t steps, SequenceSlice& rest) {
  rest.steps -= steps;
  if (rest.steps == 0) return;
  rest.x += rest.x_stride * steps;
  if (rest.y != nullptr) rest.y += rest.y_stride * steps;
  rest.before = rest.after;
}

// The submission's tasks by program, at most `max_sequences` together.
std::vector<std::pair<ProgramPtr, std::vector<SequenceSlice>>> Batches(const std::vector<SequenceTask>& tasks,
                                                                       int64_t max_sequences) {
  std::map<const Program*, size_t> open;  // index of the batch that still has room
  std::vector<std::pair<ProgramPtr, std::vector<SequenceSlice>>> batches;
  for (const SequenceTask& task : tasks) {
    const auto [found, is_new] = open.try_emplace(task.program.get(), batches.size());
    const bool is_full = !is_new && static_cast<int64_t>(batches[found->second].second.size()) >= max_sequences;
    if (is_full) found->second = batches.size();
    if (is_new || is_full) batches.emplace_back(task.program, std::vector<SequenceSlice>());
    batches[found->second].second.push_back(task.slice);
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
  for (auto& [program, rest] : Batches(submission.tasks, std::max<int64_t>(limits.max_sequences, 1))) {
    Workspace& workspace = workspaces.For(program);
    while (!rest.empty()) {
      outcome.status = MayGoOn(submission, aborted);
      if (!outcome.status.ok()) return;
      const int64_t rows = static_cast<int64_t>(rest.size());
      const int64_t steps = std::max(kMinSliceSteps, limits.max_work / rows);
      slice = rest;
      for (SequenceSlice& sequence : slice) sequence.steps = std::min(sequence.steps, steps);

      const absl::Time start = absl::Now();
      outcome.status = program->Advance(slice, workspace);
      outcome.compute_time += absl::Now() - start;
      outcome.largest_batch = std::max(outcome.largest_batch, rows);
      if (!outcome.status.ok()) return;

      for (size_t k = 0; k < rest.size(); ++k) DropSteps(slice[k].steps, rest[k]);
      std::erase_if(rest, [](const SequenceSlice& sequence) { return sequence.steps == 0; });
    }
  }
}

}  // namespace rnnserve
