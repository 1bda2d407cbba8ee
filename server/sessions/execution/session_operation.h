// SPDX-License-Identifier: Apache-2.0
// Operations that change a session, as dialects make them and the core answers them. Tensor views point into the
// caller's message, which lives until the answer has come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "server/core/call.h"
#include "server/sessions/contract/sessions.h"
#include "server/sessions/execution/session_owner.h"

namespace rnnserve {

inline constexpr size_t kMaxCheckpointNameBytes = 128;

struct ChunkOp {
  std::vector<NamedTensor> inputs;
  std::optional<std::vector<std::string>> outputs;  // else those of the session
};
struct ResetOp {
  std::optional<std::vector<NamedTensor>> state;  // else zeros
};
struct SetStateOp {
  std::vector<NamedTensor> state;
  std::string fingerprint;
  bool force = false;
};
struct SelectRowsOp {
  std::vector<int64_t> rows;
};
struct RewindOp {
  std::string checkpoint;
};
struct CloseOp {
  bool return_state = false;
};
using OperationKind = std::variant<ChunkOp, ResetOp, SetStateOp, SelectRowsOp, RewindOp, CloseOp>;

// What carries an operation, a stream or a unary call, with its deadline and cancellation.
struct OperationSender : RequestOrigin {
  std::string_view tenant = {};
  SessionOwner* owner = nullptr;  // the stream, until Apply returns; null: a unary call
};

// An operation that changes a session. Numbered ones outlive their call and ignore its deadline and cancellation.
struct OperationCall : OperationSender {
  std::string_view session = {};
  std::optional<uint64_t> number = {};
  std::optional<uint64_t> owner_epoch = {};  // as Open told it
  OperationKind kind = {};
  std::optional<absl::Duration> timeout = {};  // the operation's own, from now
};

// What an operation gave. Kept in the window, so it is told again bit for bit.
struct OperationResult final : public KeptReply {
  // What the window is charged with besides tensors.
  static constexpr int64_t kFixedBytes = 256;

  // A final state is a state: it must not lie in free memory.
  ~OperationResult() override {
    for (OutputTensor& tensor : final_state) tensor.bytes.Wipe();
  }

  int64_t bytes() const override { return kept_bytes; }

  OutputTensors outputs;
  std::vector<OutputTensor> final_state;  // of Close, if asked for
  std::string engine;
  absl::Duration queue_time;
  absl::Duration compute_time;
  int64_t kept_bytes = kFixedBytes;
};

// An operation's outcome, with the numbers of its session.
struct ApplyReply : Outcome {
  bool has_numbers = false;                            // there is such a session
  std::shared_ptr<const OperationResult> result = {};  // what it keeps as its reply, if OK
  const CallMetrics* calls = nullptr;                  // of the session's model, or kUnknownModel; null: not counted
  // What the outputs take of the core's budget: kept until the reply has left the process.
  std::optional<ByteBudget::Share> memory = {};
};

using OperationDone = absl::AnyInvocable<void(ApplyReply&&)>;

}  // namespace rnnserve
