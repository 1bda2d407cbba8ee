// SPDX-License-Identifier: Apache-2.0
// One operation of a session, from its acceptance to its commit: the lease comes, the operation reads the committed
// state, makes a fresh one, and swaps them. A chunk goes through the scheduler; everything else is done at once.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "server/core/core.h"
#include "server/sessions/contract/lease.h"
#include "server/sessions/execution/session_model.h"
#include "server/sessions/execution/session_operation.h"

namespace rnnserve {

class SessionRun : public std::enable_shared_from_this<SessionRun> {
 public:
  SessionRun(SessionModelPtr model, OperationCall&& call, Core* core, int64_t max_rows, OperationDone done)
      : model_(std::move(model)), call_(std::move(call)), core_(core), max_rows_(max_rows), done_(std::move(done)) {}

  // What can be said without the session's state: whether the operation is well formed, what it says, and how large its
  // reply is. A chunk's memory is set aside. The message of the call lives until the operation is over.
  absl::Status Prepare();
  int64_t reply_bytes() const { return reply_bytes_; }
  // The digest of the operation. Nothing: there was no memory to make it.
  const std::optional<Digest>& digest() const { return digest_; }
  // With the lease. Keeps itself alive.
  void Start(Lease&& lease);

  // Tells the caller, once the run is over or if it was answered without one.
  void Answer(Outcome&& outcome);
  void Answer(ApplyReply&& answer) { done_(std::move(answer)); }

 private:
  void SetMemoryAside(ApplyReply& answer);
  absl::StatusOr<RunPlan> PlanOf(const ChunkOp& op) const;
  // Sets the digest by itself: memory for a chunk may be refused once it is known what the chunk says.
  absl::Status PrepareOp(const ChunkOp& op);
  absl::Status PrepareOp(const ResetOp& op);
  absl::Status PrepareOp(const SetStateOp& op);
  absl::Status PrepareOp(const SelectRowsOp& op);
  absl::Status PrepareOp(const RewindOp& op);
  absl::Status PrepareOp(const CloseOp& op);

  // Each gives what the session becomes (session_changes.cc); a chunk does so later, through FinishChunk.
  absl::StatusOr<Change> Apply(const ResetOp& op);
  absl::StatusOr<Change> Apply(const SetStateOp& op);
  absl::StatusOr<Change> Apply(const SelectRowsOp& op);
  absl::StatusOr<Change> Apply(const RewindOp& op);
  absl::StatusOr<Change> Apply(const CloseOp& op);
  void RunChunk();
  absl::StatusOr<Change> FinishChunk(absl::StatusOr<InferReply>&& reply);
  bool IsGivenUp() const;
  void End(absl::StatusOr<Change> change);

  static absl::Status RowsDiffer(std::string_view field, std::string_view what, int64_t came, int64_t rows);
  absl::StatusOr<SessionStatePtr> ImportRows(std::span<const NamedTensor> tensors) const;
  Change ChangeTo(SessionStatePtr state, uint64_t position) const;

  const SessionModelPtr model_;
  OperationCall call_;
  Core* const core_;
  const int64_t max_rows_;
  int64_t reply_bytes_ = OperationResult::kFixedBytes;
  std::optional<Digest> digest_;
  InferRunPtr chunk_;   // until it runs
  uint64_t steps_ = 0;  // of a chunk
  std::optional<Lease> lease_;
  std::optional<ByteBudget::Share> memory_;  // what the reply takes of the core's budget
  OperationDone done_;
};

}  // namespace rnnserve
