// SPDX-License-Identifier: Apache-2.0
// Calls of sessions as dialects make them and the core answers them. Tensor views point into the caller's message,
// which lives until the answer has come.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "server/core/call.h"
#include "server/sessions/contract/sessions.h"
#include "server/sessions/execution/session_owner.h"

namespace rnnserve {

inline constexpr size_t kMaxCheckpointNameBytes = 128;

struct OpenCall {
  std::string tenant = {};
  std::string request_id = {};
  std::string name = {};
  bool attach = false;
  bool must_exist = false;  // with attach: never makes a new one
  // Nothing: whatever the session runs, with must_exist.
  std::optional<std::variant<OperatorDef, ModelName, ModelFingerprint>> target = {};
  std::vector<NamedTensor> weights = {};  // with an operator
  OptionalOptions options = {};
  std::string engine = {};
  std::optional<int64_t> rows = {};  // else those of the initial state, else 1
  std::optional<std::vector<NamedTensor>> state = {};
  std::optional<std::string> state_of_session = {};
  std::vector<std::string> outputs = {};
  std::optional<absl::Duration> idle_timeout = {};
  std::optional<int32_t> max_in_flight = {};
  std::optional<int32_t> window_operations = {};
  std::optional<int64_t> window_bytes = {};
  std::optional<Durability> durability = {};  // else local, or that of the session which is attached to
  std::optional<DataType> state_type = {};    // kept between operations; else the compute type
  bool by_operator_names = false;             // answers by them, whatever the names here are
  bool stays_on_drain = false;  // takes operations while the server drains: its caller cannot fetch the state
};

struct OpenReply {
  std::string key;
  std::string fingerprint;
  bool created = false;  // else attached to
  uint64_t owner_epoch = 0;
  int64_t rows = 0;
  Numbers numbers;
  uint64_t durable_number = 0;  // of a durable session
  Session::Terms terms;
  DataType state_type = DataType::kFloat;
  std::string data_input;  // what brings a chunk's steps
};

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

// An operation that changes a session. Its deadline and cancellation are those of the call that carries it; numbered
// operations outlive the call and ignore both.
struct OperationCall : RequestOrigin {
  std::string_view tenant = {};
  std::string_view session = {};
  std::optional<uint64_t> number = {};
  std::optional<uint64_t> owner_epoch = {};  // as Open told it
  OperationKind kind = {};
  std::optional<absl::Duration> timeout = {};  // the operation's own, from now
  SessionOwner* owner = nullptr;               // the stream it came by, until Apply returns; null: a unary call
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
  bool has_final_state = false;
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

using OperationDone = absl::AnyInvocable<void(ApplyReply)>;

struct ReadCall {
  std::string tenant = {};
  std::string session = {};
  std::optional<uint64_t> after_number = {};
  bool in_order = false;
  uint64_t caller_id = 0;  // as of an OperationCall
};

struct StateReply {
  Numbers numbers;
  std::string fingerprint;
  std::vector<OutputTensor> state;
  int64_t rows = 0;
  // See ApplyReply::memory.
  std::optional<ByteBudget::Share> memory = {};
};

struct ForkCall : ReadCall {
  std::string request_id = {};
  int64_t count = 1;
  std::vector<std::string> names = {};
};

struct SessionInfo {
  std::string key;
  std::string name;
  std::string model;
  std::string fingerprint;
  Session::View view;
  absl::Duration expires_in;
};
struct SessionInfos {
  std::vector<SessionInfo> sessions;
  std::string next_token;
};

}  // namespace rnnserve
