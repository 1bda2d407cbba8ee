// SPDX-License-Identifier: Apache-2.0
#include "server/core/infer_run.h"

#include <limits>
#include <utility>

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

}  // namespace

int64_t RunBytes(const OpSpec& spec, const RunPlan& plan) {
  const int64_t state_values = spec.hidden_size * (spec.kind == CellKind::kLstm ? 2 : 1);
  const int64_t state_bytes = ClampedProduct(state_values, static_cast<int64_t>(ByteSize(ComputeType(spec.data_type))));
  const int64_t sequences = ClampedProduct(plan.rows, spec.directions());
  return ClampedSum(ReplyBytes(plan), ClampedProduct(sequences, ClampedSum(state_bytes, kBytesOfSequence)));
}

InferRun::InferRun(ModelPtr model, RunPlan plan, ByteBudget::Share share)
    : model_(std::move(model)), plan_(std::move(plan)), share_(std::move(share)) {
  std::vector<std::byte*> buffers;
  outputs_.reserve(plan_.outputs.size());
  for (const OutputPlan& output : plan_.outputs) {
    outputs_.push_back({output.name, output.type, output.shape, std::string(static_cast<size_t>(output.bytes), '\0')});
    buffers.push_back(reinterpret_cast<std::byte*>(outputs_.back().bytes.data()));
  }
  sequences_ = MakeSequences(model_->spec(), plan_, buffers);
}

std::vector<SequenceTask> InferRun::Start(std::vector<ProgramPtr> programs, std::string_view engine) {
  programs_ = std::move(programs);
  engine_ = engine;
  states_.reserve(sequences_.size());
  std::vector<SequenceTask> tasks;
  tasks.reserve(sequences_.size());
  for (const Sequence& sequence : sequences_) {
    const ProgramPtr& program = programs_[static_cast<size_t>(sequence.direction)];
    State& state = *states_.emplace_back(program->NewState());
    const bool has_initial = sequence.initial_h != nullptr || sequence.initial_c != nullptr;
    if (has_initial) {
      program->ImportState(model_->spec().data_type, sequence.initial_h, sequence.initial_c, state);
    }
    SequenceSlice slice;
    slice.x = sequence.x;
    slice.x_stride = sequence.x_stride;
    slice.y = sequence.y;
    slice.y_stride = sequence.y_stride;
    slice.steps = sequence.length;
    slice.before = has_initial ? &state : nullptr;
    slice.after = &state;
    tasks.push_back({program, slice, StepWork(model_->spec())});
  }
  return tasks;
}

absl::StatusOr<InferReply> InferRun::Finish(const ScheduleOutcome& outcome) {
  for (size_t k = 0; k < sequences_.size(); ++k) {
    const Sequence& sequence = sequences_[k];
    if (sequence.final_h == nullptr && sequence.final_c == nullptr) continue;
    programs_[static_cast<size_t>(sequence.direction)]->ExportState(*states_[k], model_->spec().data_type,
                                                                    sequence.final_h, sequence.final_c);
    if (absl::Status failed = states_[k]->failure(); !failed.ok()) return failed;
  }
  InferReply reply;
  reply.outputs = std::move(outputs_);
  reply.engine = engine_;
  reply.fingerprint = model_->fingerprint();
  reply.queue_time = outcome.queue_time;
  reply.compute_time = outcome.compute_time;
  reply.largest_batch = outcome.largest_batch;
  reply.warnings = model_->spec().warnings;
  share_.ShrinkTo(ReplyBytes(plan_));
  reply.memory.emplace(std::move(share_));
  return reply;
}

}  // namespace rnnserve
