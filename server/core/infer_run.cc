// SPDX-License-Identifier: Apache-2.0
#include "server/core/infer_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/recycled.h"
#include "server/core/reply_limit.h"

namespace rnnserve {
namespace {

// Sequence, task, slice and the fixed part of a state.
constexpr int64_t kBytesOfSequence = 512;

int64_t ClampedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t ClampedSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

// H and I are sizes of weights that are in memory, so this does not overflow.
int64_t StepWork(const OpSpec& spec) {
  return GateCount(spec.kind) * spec.hidden_size * (spec.input_size + spec.hidden_size);
}

int64_t StateBytes(const OpSpec& spec, int64_t rows) {
  const int64_t values = spec.hidden_size * (spec.kind == CellKind::kLstm ? 2 : 1);
  const int64_t bytes = ClampedProduct(values, static_cast<int64_t>(ByteSize(ComputeType(spec.data_type))));
  return ClampedProduct(ClampedProduct(rows, spec.directions()), ClampedSum(bytes, kBytesOfSequence));
}

// The buffer that layer `layer` writes serves every second layer.
int64_t BufferBytes(const StackSpec& stack, const RunPlan& plan, size_t layer) {
  int64_t bytes = 0;
  for (size_t k = layer % 2; k < stack.layers.size(); k += 2) bytes = std::max(bytes, BytesAfter(stack, plan, k));
  return bytes;
}

}  // namespace

int64_t BetweenBytes(const StackSpec& stack, const RunPlan& plan) {
  if (stack.pipeline != nullptr) return PlaceBytes(stack, plan);
  return stack.layers.size() == 1 ? 0 : ClampedSum(BufferBytes(stack, plan, 0), BufferBytes(stack, plan, 1));
}

int64_t RunBytes(const StackSpec& stack, const RunPlan& plan) {
  int64_t states = 0;  // those of one layer go before the next one's are made
  for (const OpSpec& spec : stack.layers) states = std::max(states, StateBytes(spec, plan.rows));
  return ClampedSum(ClampedSum(ReplyBytes(plan), BetweenBytes(stack, plan)), states);
}

InferRun::InferRun(ModelPtr model, RunPlan&& plan, ByteBudget::Share share, std::optional<RunStates>&& kept,
                   bool deterministic)
    : model_(std::move(model)), plan_(std::move(plan)), share_(std::move(share)), kept_(std::move(kept)) {
  plan_.list_empty_rows = kept_.has_value();
  outputs_.reserve(plan_.outputs.size());
  for (const OutputPlan& output : plan_.outputs) {
    outputs_.push_back({output.name, output.type, output.shape, Elements(static_cast<size_t>(output.bytes))});
    buffers_.push_back(reinterpret_cast<std::byte*>(outputs_.back().bytes.data()));
  }
  share_.Took();
  if (model_->stack().pipeline == nullptr) {
    MakeLayer();
    return;
  }
  maps_.emplace(model_->stack(), plan_, buffers_, model_->map_programs(deterministic));
  MakeStage();
}

void InferRun::MakeStage() {
  for (in_map_ = false; stage_ < maps_->stages(); maps_->Finish(stage_++)) {
    if (!maps_->is_layer(stage_)) {
      in_map_ = maps_->has_work(stage_);
      if (in_map_) return;
      continue;
    }
    layer_ = maps_->layer(stage_);
    sequences_ = MakeSequences(model_->stack(), plan_, buffers_, layer_, maps_->LayerMemory(stage_));
    if (!sequences_.empty()) return;
  }
}

void InferRun::MakeLayer() {
  for (;; ++layer_) {
    Between between;
    if (layer_ > 0) between.x = between_[(layer_ - 1) % 2].get();
    if (!last() && plan_.rows > 0) {
      std::unique_ptr<std::byte[]>& buffer = between_[layer_ % 2];
      if (buffer == nullptr) {
        const int64_t bytes = BufferBytes(model_->stack(), plan_, layer_);
        buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
      }
      between.y = buffer.get();
    }
    sequences_ = MakeSequences(model_->stack(), plan_, buffers_, layer_, between);
    if (!sequences_.empty() || last()) return;
  }
}

size_t InferRun::IndexOf(const Sequence& sequence) const {
  return static_cast<size_t>(sequence.direction * plan_.rows + sequence.row);
}

absl::StatusOr<SequenceTasks> InferRun::StartStage(const LayerPrograms& programs) {
  if (in_map_) return maps_->Start(stage_);
  const OpSpec& spec = model_->stack().layers[layer_];
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
    if (kept_) {
      slice.before = (*kept_)[layer_][IndexOf(sequence)].get();
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
  const DataType type = model_->stack().data_type();
  for (size_t k = 0; k < sequences_.size(); ++k) {
    const Sequence& sequence = sequences_[k];
    const State* state = states_[k].get();
    if (kept_) {
      std::shared_ptr<const State>& kept = (*kept_)[layer_][IndexOf(sequence)];
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

InferReply InferRun::Finish(const ScheduleOutcome& outcome, std::string engine) {
  InferReply reply;
  reply.outputs = std::move(outputs_);
  reply.engine = std::move(engine);
  reply.model = model_;
  reply.queue_time = outcome.queue_time;
  reply.compute_time = outcome.compute_time;
  reply.largest_batch = outcome.largest_batch;
  if (kept_) reply.states = *std::move(kept_);
  share_.ShrinkTo(ReplyBytes(plan_));
  reply.memory.emplace(std::move(share_));
  return reply;
}

}  // namespace rnnserve
