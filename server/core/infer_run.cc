// SPDX-License-Identifier: Apache-2.0
#include "server/core/infer_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "server/core/nonfinite.h"
#include "server/core/reply_limit.h"

namespace rnnserve {
namespace {

// H and I are sizes of weights that are in memory, so this does not overflow.
int64_t StepWork(const OpSpec& spec) {
  return GateCount(spec.kind) * spec.hidden_size * (spec.input_size + spec.hidden_size);
}

void Count(const InferReply& reply, const WorkMetrics& metrics) {
  metrics.queue_duration->Observe(reply.queue_time);
  metrics.compute_duration->Observe(reply.compute_time);
  const auto is_nonfinite = [](const OutputTensor& output) { return HasNonfinite(output.type, output.bytes.view()); };
  if (std::ranges::any_of(reply.outputs, is_nonfinite)) metrics.nonfinite_outputs->Add();
}

// A call that brings all it needs: what a failed device took with it can be computed again.
absl::Status WithoutLoss(const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return status;
  return absl::UnavailableError(absl::StrCat(status.message(), "; nothing of this call is lost, send it again"));
}

}  // namespace

void InferRun::MakeMemory() {
  RunPlan& plan = call_.plan;
  plan.list_empty_rows = call_.states.has_value();
  reply_.outputs.reserve(plan.outputs.size());
  for (const OutputPlan& output : plan.outputs) {
    reply_.outputs.push_back({output.name, output.type, output.shape, Elements(static_cast<size_t>(output.bytes))});
    buffers_.push_back(reinterpret_cast<std::byte*>(reply_.outputs.back().bytes.data()));
  }
  call_.memory.Took();
  if (stack().pipeline == nullptr) {
    MakeLayer();
    return;
  }
  maps_.emplace(stack(), plan, buffers_,
                call_.resolved->model->map_programs(call_.resolved->engine_options.deterministic));
  MakeStage();
}

void InferRun::Start(InferRunPtr run, absl::Status ready, Router* router, Scheduler* scheduler, InferDone done) {
  run->router_ = router;
  run->scheduler_ = scheduler;
  run->done_ = std::move(done);
  if (!ready.ok()) return End(std::move(run), std::move(ready));
  if (!run->is_over()) {
    run->engines_ = run->call_.pinned == nullptr ? &run->own_engines_ : &run->call_.pinned->engines;
  }
  Next(std::move(run));
}

void InferRun::Next(InferRunPtr run) {
  while (!run->is_over()) {
    absl::StatusOr<SequenceTasks> tasks = OrOutOfMemory([&] { return run->StartStage(run->engines_->programs); });
    if (!tasks.ok()) return End(std::move(run), tasks.status());
    if (!tasks->empty()) return Schedule(std::move(run), *std::move(tasks));
    if (absl::Status finished = OrOutOfMemory([&] { return run->FinishStage(); }); !finished.ok()) {
      return End(std::move(run), std::move(finished));
    }
  }
  absl::StatusOr<InferReply> reply = run->TakeReply();
  End(std::move(run), std::move(reply));
}

void InferRun::Schedule(InferRunPtr run, SequenceTasks tasks) {
  Scheduler* const scheduler = run->scheduler_;
  Submission submission;
  static_cast<RequestOrigin&>(submission) = run->call_;
  submission.tasks = std::move(tasks);
  submission.bytes = run->call_.bytes;
  submission.goes_on = !run->first_;
  submission.metrics = run->engines_->metrics;
  submission.done = [run = std::move(run)](ScheduleOutcome outcome) mutable { StageRan(std::move(run), outcome); };
  absl::Status owned = OrOutOfMemory([&] { return scheduler->Schedule(std::move(submission)); });
  // Without it, memory ran out after the queue had taken it over, and the queue has it.
  if (!owned.ok() && submission.done) submission.done({.status = std::move(owned)});
}

void InferRun::StageRan(InferRunPtr run, const ScheduleOutcome& outcome) {
  if (!outcome.status.ok()) return End(std::move(run), outcome.status);
  if (!run->in_map_) {
    const ResolvedModel& model = *run->call_.resolved;
    run->router_->Ran(model.cells(run->layer_), model.engine_options, run->call_.load, outcome.largest_batch);
  }
  InferReply& reply = run->reply_;
  if (std::exchange(run->first_, false)) reply.queue_time = outcome.queue_time;
  reply.compute_time += outcome.compute_time;
  reply.largest_batch = std::max(reply.largest_batch, outcome.largest_batch);
  if (absl::Status finished = OrOutOfMemory([&] { return run->FinishStage(); }); !finished.ok()) {
    return End(std::move(run), std::move(finished));
  }
  Next(std::move(run));
}

void InferRun::End(InferRunPtr run, absl::StatusOr<InferReply>&& reply) {
  if (!reply.ok() && !run->call_.states) reply = WithoutLoss(reply.status());
  if (reply.ok() && run->engines_ != nullptr && run->engines_->metrics != nullptr) {
    Count(*reply, *run->engines_->metrics);
  }
  InferDone done = std::move(run->done_);
  run.reset();
  done(std::move(reply));
}

void InferRun::MakeStage() {
  for (in_map_ = false; stage_ < maps_->stages(); maps_->Finish(stage_++)) {
    if (!maps_->is_layer(stage_)) {
      in_map_ = maps_->has_work(stage_);
      if (in_map_) return;
      continue;
    }
    layer_ = maps_->layer(stage_);
    sequences_ = MakeSequences(stack(), call_.plan, buffers_, layer_, maps_->LayerMemory(stage_));
    if (!sequences_.empty()) return;
  }
}

void InferRun::MakeLayer() {
  for (;; ++layer_) {
    Between between;
    if (layer_ > 0) between.x = between_[(layer_ - 1) % 2].get();
    if (!last() && call_.plan.rows > 0) {
      std::unique_ptr<std::byte[]>& buffer = between_[layer_ % 2];
      if (buffer == nullptr) {
        const int64_t bytes = BufferBytes(stack(), call_.plan, layer_);
        buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
      }
      between.y = buffer.get();
    }
    sequences_ = MakeSequences(stack(), call_.plan, buffers_, layer_, between);
    if (!sequences_.empty() || last()) return;
  }
}

size_t InferRun::IndexOf(const Sequence& sequence) const {
  return static_cast<size_t>(sequence.direction * call_.plan.rows + sequence.row);
}

absl::StatusOr<SequenceTasks> InferRun::StartStage(const LayerPrograms& programs) {
  if (in_map_) return maps_->Start(stage_);
  const OpSpec& spec = stack().layers[layer_];
  programs_ = programs[layer_];
  states_.clear();
  states_.reserve(sequences_.size());
  SequenceTasks tasks;
  tasks.reserve(sequences_.size());
  for (const Sequence& sequence : sequences_) {
    if (sequence.length == 0) {
      states_.push_back(nullptr);
      continue;
    }
    const ProgramPtr& program = programs_[static_cast<size_t>(sequence.direction)];
    State& state = *states_.emplace_back(program->NewState());
    SequenceSlice slice;
    slice.x = sequence.x;
    slice.x_stride = sequence.x_stride;
    slice.y = sequence.y;
    slice.y_stride = sequence.y_stride;
    slice.steps = sequence.length;
    slice.after = &state;
    if (call_.states) {
      slice.before = (*call_.states)[layer_][IndexOf(sequence)].get();
    } else if (sequence.initial_h != nullptr || sequence.initial_c != nullptr) {
      program->ImportState(spec.data_type, sequence.initial_h, sequence.initial_c, state);
      slice.before = &state;
    }
    if (absl::Status failed = state.failure(); !failed.ok()) return failed;
    if (slice.before != nullptr && slice.before != &state) {
      if (absl::Status failed = slice.before->failure(); !failed.ok()) return failed;
    }
    tasks.push_back({program, slice, StepWork(spec)});
  }
  return tasks;
}

absl::Status InferRun::FinishStage() {
  if (!in_map_) {
    if (absl::Status finished = FinishLayer(); !finished.ok()) return finished;
  }
  if (maps_) {
    maps_->Finish(stage_++);
    MakeStage();
  } else if (!last()) {
    ++layer_;
    MakeLayer();
  }
  return absl::OkStatus();
}

absl::Status InferRun::FinishLayer() {
  const DataType type = stack().data_type();
  for (size_t k = 0; k < sequences_.size(); ++k) {
    const Sequence& sequence = sequences_[k];
    const State* state = states_[k].get();
    if (call_.states) {
      std::shared_ptr<const State>& kept = (*call_.states)[layer_][IndexOf(sequence)];
      if (state != nullptr) {
        const WipeState wipe = {programs_[static_cast<size_t>(sequence.direction)], ComputeType(type)};
        kept = {states_[k].release(), wipe, RecycledAllocator<State>()};
      }
      state = kept.get();
    }
    if (state == nullptr) continue;  // zeros, as the buffers are
    if (sequence.final_h != nullptr || sequence.final_c != nullptr) {
      programs_[static_cast<size_t>(sequence.direction)]->ExportState(*state, type, sequence.final_h, sequence.final_c);
    }
    if (absl::Status failed = state->failure(); !failed.ok()) return failed;
  }
  states_.clear();
  sequences_.clear();
  return absl::OkStatus();
}

absl::StatusOr<InferReply> InferRun::TakeReply() {
  if (engines_ != nullptr) reply_.engine = engines_->names;
  reply_.model = call_.resolved->model;
  if (call_.states) reply_.states = *std::move(call_.states);
  call_.memory.ShrinkTo(ReplyBytes(call_.plan));
  reply_.memory.emplace(std::move(call_.memory));
  return std::move(reply_);
}

}  // namespace rnnserve
