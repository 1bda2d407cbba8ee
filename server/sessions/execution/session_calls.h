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
#include "server/sessions/execution/session_operation.h"

namespace rnnserve {

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
