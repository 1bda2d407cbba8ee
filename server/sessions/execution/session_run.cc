// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/session_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/recycled.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "server/sessions/contract/allocated_bytes.h"
#include "server/sessions/execution/session_digest.h"

namespace rnnserve {

absl::Status SessionRun::RowsDiffer(std::string_view field, std::string_view what, int64_t came, int64_t rows) {
  return FieldError(field, absl::StrCat(View(what), " has ", came, " rows, but the session has ", rows));
}

absl::Status SessionRun::Prepare() {
  absl::Status prepared = std::visit([&](const auto& op) { return PrepareOp(op); }, call_.kind);
  if (!digest_) digest_ = prepared.ok() ? DigestOf(call_.kind, nullptr) : DigestOfFaulty(call_.kind);
  return prepared;
}

absl::StatusOr<RunPlan> SessionRun::PlanOf(const ChunkOp& op) const {
  const PinnedModel& pinned = *model_->pinned();
  const std::vector<std::string>& outputs = op.outputs ? *op.outputs : model_->outputs();
  // Another chunk's, whose names were the same.
  if (auto known = pinned.model->plans().Find(op.inputs, outputs, pinned.run_options)) return *std::move(known);
  const StackSpec& stack = model_->stack();
  RETURN_IF_ERROR(CheckDataNames(stack, op.inputs));
  for (const NamedTensor& input : op.inputs) {
    if (IsChunkInput(stack, input.name)) continue;
    return FieldError(absl::StrCat("inputs[", input.name, "]"),
                      absl::StrCat(input.name, " is the session's own state; send ", model_->data_input(),
                                   " alone, or SetState before it"));
  }
  return core_->Plan(pinned, op.inputs, outputs);
}

absl::Status SessionRun::PrepareOp(const ChunkOp& op) {
  ASSIGN_OR_RETURN(auto&& plan, PlanOf(op));
  // An override of no outputs at all: the state moves, nothing is sent.
  if (op.outputs && op.outputs->empty()) plan.outputs.clear();
  digest_ = DigestOf(call_.kind, &plan);
  ASSIGN_OR_RETURN(chunk_, core_->AcceptPinned(model_->pinned(), std::move(plan), call_));
  for (const OutputPlan& output : chunk_->call().plan.outputs) reply_bytes_ += AllocatedBytes(output.bytes);
  steps_ = static_cast<uint64_t>(chunk_->call().plan.steps);
  return absl::OkStatus();
}

void SessionRun::Start(Lease&& lease) {
  lease_.emplace(std::move(lease));
  if (!std::holds_alternative<CloseOp>(call_.kind)) {
    if (absl::Status goes_on = model_->CanGoOn(); !goes_on.ok()) return End(std::move(goes_on));
  }
  if (std::holds_alternative<ChunkOp>(call_.kind)) return RunChunk();
  End(OrOutOfMemory([&] {
    return std::visit(
        [&](const auto& op) -> absl::StatusOr<Change> {
          if constexpr (std::is_same_v<std::decay_t<decltype(op)>, ChunkOp>) {
            return absl::InternalError("a chunk is not applied here");
          } else {
            return Apply(op);
          }
        },
        call_.kind);
  }));
}

void SessionRun::RunChunk() {
  const SessionState& state = *lease_->state();
  const RunPlan& plan = chunk_->call().plan;
  if (plan.rows != state.rows) {
    const std::string x = plan.by_operator_names ? "X" : DataInputName(model_->stack());
    return End(RowsDiffer(InputField(x) + ".shape", x, plan.rows, state.rows));
  }
  absl::StatusOr<RunStates> states = OrOutOfMemory([&]() -> absl::StatusOr<RunStates> { return model_->ToRun(state); });
  if (!states.ok()) return End(states.status());
  chunk_->call().states = *std::move(states);
  core_->Run(std::move(chunk_), [self = shared_from_this()](absl::StatusOr<InferReply>&& reply) {
    self->End(OrOutOfMemory([&] { return self->FinishChunk(std::move(reply)); }));
  });
}

absl::StatusOr<Change> SessionRun::FinishChunk(absl::StatusOr<InferReply>&& reply) {
  if (!reply.ok()) {
    // The engine may have failed under this very chunk.
    if (absl::Status goes_on = model_->CanGoOn(); !goes_on.ok() && absl::IsUnavailable(reply.status())) return goes_on;
    return LostState(reply.status());
  }
  auto result = MakeRecycled<OperationResult>();
  result->outputs = std::move(reply->outputs);
  result->engine = std::move(reply->engine);
  result->queue_time = reply->queue_time;
  result->compute_time = reply->compute_time;
  result->kept_bytes = reply_bytes_;
  memory_ = std::move(reply->memory);
  absl::StatusOr<SessionStatePtr> state = model_->FromRun(lease_->state()->rows, std::move(reply->states));
  if (!state.ok()) return LostState(state.status());
  Change change;
  change.state = *std::move(state);
  change.position = lease_->numbers().position + steps_;
  change.reply = std::move(result);
  return change;
}

void SessionRun::Answer(Outcome&& outcome) {
  ApplyReply answer{std::move(outcome), /*has_numbers=*/true};
  answer.result = std::static_pointer_cast<const OperationResult>(std::move(answer.reply));
  if (model_->counters() != nullptr) answer.calls = model_->counters()->calls;
  if (chunk_ != nullptr) memory_.emplace(std::move(chunk_->call().memory));
  answer.memory = std::exchange(memory_, std::nullopt);
  if (answer.status.ok() && !answer.memory) SetMemoryAside(answer);
  done_(std::move(answer));
}

// A kept reply is copied for each caller that asks for it, so each copy counts. What is applied stays applied: a
// refused caller asks again.
void SessionRun::SetMemoryAside(ApplyReply& answer) {
  if (answer.result->bytes() <= OperationResult::kFixedBytes) return;
  absl::StatusOr<ByteBudget::Share> memory = core_->TakeMemory(call_.caller_id, answer.result->bytes());
  if (memory.ok()) {
    answer.memory.emplace(*std::move(memory));
    return;
  }
  answer.status = WithNumbers(memory.status(), answer.numbers);
  answer.result.reset();
}

// An operation without a number cannot be repeated, so it changes nothing once its caller has disconnected.
bool SessionRun::IsGivenUp() const {
  if (call_.number) return false;
  return (call_.cancelled != nullptr && call_.cancelled->load(std::memory_order_relaxed)) ||
         (call_.deadline != absl::InfiniteFuture() && SteadyNow() >= call_.deadline);
}

// Releases what the run holds of the caller's message before it answers the caller.
void SessionRun::End(absl::StatusOr<Change> change) {
  if (change.ok() && IsGivenUp())
    change = absl::CancelledError("the caller went away before the operation was applied");
  if (absl::IsDataLoss(change.status()) && model_->counters() != nullptr) model_->counters()->lost->Add();
  Lease lease = *std::move(lease_);
  lease_.reset();
  call_.kind = ResetOp{};
  if (change.ok()) return std::move(lease).Commit(*std::move(change));
  std::move(lease).Fail(change.status());
}

}  // namespace rnnserve
