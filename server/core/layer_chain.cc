// SPDX-License-Identifier: Apache-2.0
#include "server/core/layer_chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "server/core/nonfinite.h"

namespace rnnserve {
namespace {

void Count(const InferReply& reply, const WorkMetrics& metrics) {
  metrics.queue_duration->Observe(reply.queue_time);
  metrics.compute_duration->Observe(reply.compute_time);
  const auto is_nonfinite = [](const OutputTensor& output) { return HasNonfinite(output.type, output.bytes.view()); };
  if (std::ranges::any_of(reply.outputs, is_nonfinite)) metrics.nonfinite_outputs->Add();
}

// A call that brings all it needs: what a failed device took with it can be computed again.
absl::StatusOr<InferReply> WithoutLoss(absl::StatusOr<InferReply> reply) {
  if (!absl::IsDataLoss(reply.status())) return reply;
  return absl::UnavailableError(
      absl::StrCat(reply.status().message(), "; nothing of this call is lost, send it again"));
}

}  // namespace

LayerChain::LayerChain(AcceptedCall&& call, Router* router, Scheduler* scheduler)
    : call_(std::move(call)),
      engines_(call_.pinned == nullptr ? nullptr : &call_.pinned->engines),
      router_(router),
      scheduler_(scheduler) {
  run_.emplace(call_.model, std::move(call_.plan), std::move(call_.memory), std::move(call_.states),
               call_.engine_options.deterministic);
}

void LayerChain::Start(EngineSet engines, InferDone done) {
  done_ = std::move(done);
  own_engines_ = std::move(engines);
  if (!own_engines_.engines.empty()) engines_ = &own_engines_;
  if (is_over()) engines_ = nullptr;
  Next();
}

void LayerChain::Refuse(absl::Status status, InferDone done) {
  done_ = std::move(done);
  End(std::move(status));
}

void LayerChain::Next() {
  while (!run_->done()) {
    absl::StatusOr<SequenceTasks> tasks = OrOutOfMemory([&] { return run_->StartStage(engines_->programs); });
    if (!tasks.ok()) return End(tasks.status());
    Submission submission;
    submission.tasks = *std::move(tasks);
    if (submission.tasks.empty()) {
      if (absl::Status finished = FinishStage(); !finished.ok()) return End(std::move(finished));
      continue;
    }
    submission.priority = call_.priority;
    submission.tenant = call_.caller_id;
    submission.bytes = call_.bytes;
    submission.goes_on = !first_;
    submission.metrics = engines_->metrics;
    submission.deadline = call_.deadline;
    submission.cancelled = call_.cancelled;
    submission.done = [self = shared_from_this()](ScheduleOutcome outcome) { self->LayerDone(outcome); };
    absl::Status owned = OrOutOfMemory([&] { return scheduler_->Schedule(std::move(submission)); });
    if (!owned.ok()) End(std::move(owned));
    return;
  }
  End(run_->Finish(sum_, engines_ == nullptr ? std::string() : engines_->names));
}

absl::Status LayerChain::FinishStage() {
  return OrOutOfMemory([&] { return run_->FinishStage(); });
}

void LayerChain::LayerDone(const ScheduleOutcome& outcome) {
  if (!outcome.status.ok()) return End(outcome.status);
  if (!run_->in_map()) {
    router_->Ran(call_.cells(run_->layer()), call_.engine_options, call_.load, outcome.largest_batch);
  }
  if (std::exchange(first_, false)) sum_.queue_time = outcome.queue_time;
  sum_.compute_time += outcome.compute_time;
  sum_.largest_batch = std::max(sum_.largest_batch, outcome.largest_batch);
  if (absl::Status finished = FinishStage(); !finished.ok()) return End(std::move(finished));
  Next();
}

void LayerChain::End(absl::StatusOr<InferReply> reply) {
  if (!run_->keeps_states()) reply = WithoutLoss(std::move(reply));
  run_.reset();
  if (reply.ok() && engines_ != nullptr && engines_->metrics != nullptr) Count(*reply, *engines_->metrics);
  done_(std::move(reply));
}

}  // namespace rnnserve
