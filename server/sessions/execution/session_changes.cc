// SPDX-License-Identifier: Apache-2.0
// The operations of SessionRun that compute nothing: Reset, SetState, SelectRows, Rewind and Close.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "server/admission/limit_error.h"
#include "server/sessions/execution/session_run.h"

namespace rnnserve {

absl::Status SessionRun::PrepareOp(const ResetOp& op) {
  if (!op.state) return absl::OkStatus();
  const absl::StatusOr<int64_t> rows = model_->CheckTensors(*op.state);
  if (rows.ok()) return absl::OkStatus();
  const std::optional<std::string> field = FieldOf(rows.status());
  return FieldError(absl::StrCat("state.", field.value_or("tensors")),
                    {rows.status().message().data(), rows.status().message().size()});
}

absl::Status SessionRun::PrepareOp(const SetStateOp& op) {
  if (!op.force && op.fingerprint != model_->fingerprint()) {
    return SessionError(
        absl::StatusCode::kFailedPrecondition, "FINGERPRINT_MISMATCH",
        op.fingerprint.empty()
            ? absl::StrCat("the state comes without the fingerprint that GetState told; the session's is ",
                           model_->fingerprint(), "; set force to take the state all the same")
            : absl::StrCat("the state is of another model than the session's, whose fingerprint is ",
                           model_->fingerprint(), "; set force to take it all the same"));
  }
  return PrepareOp(ResetOp{op.state});
}

absl::Status SessionRun::PrepareOp(const SelectRowsOp& op) {
  if (op.rows.empty()) return FieldError("rows", "rows is empty; keep at least one row, or Close the session");
  if (static_cast<int64_t>(op.rows.size()) > max_rows_) {
    return LimitError("rows", absl::StrCat("rows has ", op.rows.size(), " entries; a session has at most ", max_rows_),
                      {.limit = max_rows_, .value = static_cast<int64_t>(op.rows.size())});
  }
  return absl::OkStatus();
}

absl::Status SessionRun::PrepareOp(const RewindOp& op) {
  if (!op.checkpoint.empty() && op.checkpoint.size() <= kMaxCheckpointNameBytes) return absl::OkStatus();
  return FieldError("checkpoint", absl::StrCat("the checkpoint's name has ", op.checkpoint.size(),
                                               " bytes; expected 1 to ", kMaxCheckpointNameBytes));
}

absl::Status SessionRun::PrepareOp(const CloseOp& op) {
  // Rows may change before its turn comes; the exact size is checked then.
  if (op.return_state) reply_bytes_ += model_->KeptReplyBytes(1);
  return absl::OkStatus();
}

Change SessionRun::ChangeTo(SessionStatePtr state, uint64_t position) const {
  Change change;
  change.state = std::move(state);
  change.position = position;
  change.reply = std::make_shared<OperationResult>();
  return change;
}

absl::StatusOr<SessionStatePtr> SessionRun::ImportRows(std::span<const NamedTensor> tensors) const {
  ASSIGN_OR_RETURN(const int64_t rows, model_->CheckTensors(tensors));
  if (rows != lease_->state()->rows) return RowsDiffer("state.tensors", "the state", rows, lease_->state()->rows);
  return model_->Import(tensors, rows);
}

absl::StatusOr<Change> SessionRun::Apply(const ResetOp& op) {
  ASSIGN_OR_RETURN(SessionStatePtr state, op.state ? ImportRows(*op.state) : model_->Start(lease_->state()->rows));
  return ChangeTo(std::move(state), 0);
}

absl::StatusOr<Change> SessionRun::Apply(const SetStateOp& op) {
  ASSIGN_OR_RETURN(SessionStatePtr state, ImportRows(op.state));
  return ChangeTo(std::move(state), lease_->numbers().position);
}

absl::StatusOr<Change> SessionRun::Apply(const SelectRowsOp& op) {
  const SessionState& state = *lease_->state();
  for (size_t k = 0; k < op.rows.size(); ++k) {
    if (op.rows[k] >= 0 && op.rows[k] < state.rows) continue;
    return FieldError(absl::StrCat("rows[", k, "]"),
                      absl::StrCat("rows[", k, "] is ", op.rows[k], "; the session has rows 0 to ", state.rows - 1));
  }
  return ChangeTo(model_->Select(state, op.rows), lease_->numbers().position);
}

absl::StatusOr<Change> SessionRun::Apply(const RewindOp& op) {
  ASSIGN_OR_RETURN(auto&& checkpoint, lease_->FindCheckpoint(op.checkpoint));
  return ChangeTo(std::move(checkpoint.state), checkpoint.numbers.position);
}

absl::StatusOr<Change> SessionRun::Apply(const CloseOp& op) {
  Change change = ChangeTo(nullptr, lease_->numbers().position);
  change.closes = true;
  if (!op.return_state) return change;
  const int64_t kept_bytes = OperationResult::kFixedBytes + model_->KeptReplyBytes(lease_->state()->rows);
  RETURN_IF_ERROR(lease_->CheckReply(kept_bytes));
  ASSIGN_OR_RETURN(ByteBudget::Share memory, core_->TakeMemory(call_.caller_id, kept_bytes));
  ASSIGN_OR_RETURN(std::vector<OutputTensor> state, model_->Export(*lease_->state()));
  auto result = std::make_shared<OperationResult>();
  result->final_state = std::move(state);
  result->kept_bytes = kept_bytes;
  memory_.emplace(std::move(memory));
  change.reply = std::move(result);
  return change;
}

}  // namespace rnnserve
