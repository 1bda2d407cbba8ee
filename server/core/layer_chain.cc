// SPDX-License-Identifier: Apache-2.0
#include "server/core/layer_chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/nonfinite.h"
#include "server/telemetry/out_of_memory.h"

namespace rnnserve {
namespace {

void Count(const InferReply& reply, const WorkMetrics& metrics) {
  metrics.queue_duration->Observe(reply.queue_time);
  metrics.compute_duration->Observe(reply.compute_time);
  const auto is_nonfinite = [](const OutputTensor& output) { return HasNonfinite(output.type, output.bytes); };
  if (std::ranges::any_of(reply.outputs, is_nonfinite)) metrics.nonfinite_outputs->Add();
}

// A call that brings all it needs: what a failed device took with it can be computed again.
absl::StatusOr<InferReply> WithoutLoss(absl::StatusOr<InferReply> reply) {
  if (!absl::IsDataLoss(reply.status())) return reply;
  return absl::UnavailableError(
      absl::StrCat(reply.status().message(), "; nothing of this call is lost, send it again"));
}

}  // namespace

LayerChain::LayerChain(std::unique_ptr<InferRun> run, std::vector<std::vector<ProgramPtr>> programs, std::string engine,
                       Terms terms, Ran ran, Scheduler* scheduler, Core::Done done)
    : run_(std::move(run)),
      programs_(std::move(programs)),
      engine_(std::move(engine)),
      terms_(std::move(terms)),
      ran_(std::move(ran)),
      scheduler_(scheduler),
      done_(std::move(done)) {}

void LayerChain::Start() {
  while (!run_->done()) {
    absl::StatusOr<std::vector<SequenceTask>> tasks = OrOutOfMemory([&] { return run_->StartStage(programs_); });
    if (!tasks.ok()) return End(tasks.status());
    Submission submission;
    submission.tasks = *std::move(tasks);
    if (submission.tasks.empty()) {
      if (absl::Status finished = FinishStage(); !finished.ok()) return End(std::move(finished));
      continue;
    }
    submission.priority = terms_.priority;
    submission.tenant = terms_.tenant;
    submission.bytes = terms_.bytes;
    submission.goes_on = !first_;
    submission.metrics = terms_.metrics;
    submission.deadline = terms_.deadline;
    submission.cancelled = terms_.cancelled;
    submission.done = [self = shared_from_this()](ScheduleOutcome outcome) { self->LayerDone(outcome); };
    absl::Status owned = OrOutOfMemory([&] { return scheduler_->Schedule(std::move(submission)); });
    if (!owned.ok()) End(std::move(owned));
    return;
  }
  End(run_->Finish(sum_, engine_));
}

absl::Status LayerChain::FinishStage() {
  return OrOutOfMemory([&] { return run_->FinishStage(); });
}

void LayerChain::LayerDone(const ScheduleOutcome& outcome) {
  if (!outcome.status.ok()) return End(outcome.status);
  if (!run_->in_map()) ran_(run_->layer(), outcome.largest_batch);
  if (std::exchange(first_, false)) sum_.queue_time = outcome.queue_time;
  sum_.compute_time += outcome.compute_time;
  sum_.largest_batch = std::max(sum_.largest_batch, outcome.largest_batch);
  if (absl::Status finished = FinishStage(); !finished.ok()) return End(std::move(finished));
  Start();
}

void LayerChain::End(absl::StatusOr<InferReply> reply) {
  if (!run_->keeps_states()) reply = WithoutLoss(std::move(reply));
  run_.reset();
  if (reply.ok() && terms_.metrics != nullptr) Count(*reply, *terms_.metrics);
  done_(std::move(reply));
}

}  // namespace rnnserve
