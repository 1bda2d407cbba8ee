// SPDX-License-Identifier: Apache-2.0
// Requests and replies of sessions, in plain types. Meanings are those of
// proto/rnnserve/v1/sessions.proto.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/types.h"

namespace rnnserve::client {

// What a session outlives. kLocal: not its server. The others need servers with a common store, each of which can go on
// with it: kInterval writes to the store now and then, kSync before each reply.
enum class Durability { kUnspecified, kLocal, kInterval, kSync };

// What Open says. Members have initialisers so that {.target = ...} compiles without warnings.
struct SessionSpec {
  Target target = {};
  std::vector<Tensor> weights = {};  // W, R, B, P of an OperatorDef; else empty
  // Makes Open safe to repeat; empty: one is made up where it is needed.
  std::string request_id = {};
  std::string name = {};                  // unique among the tenant's live sessions
  bool attach = false;                    // to the live session of that name, if there is one
  bool must_exist = false;                // with attach: never make a new one
  std::optional<int64_t> rows = {};       // absent: 1
  std::vector<Tensor> state = {};         // initial_h, initial_c, or as the file calls them; empty: zeros
  std::string state_of_session = {};      // or a copy of that session's
  std::vector<std::string> outputs = {};  // of each chunk; empty: the operator's default
  Options options = {};
  std::string engine = {};
  std::optional<std::chrono::milliseconds> idle_timeout = {};  // absent: the server's default, 10 minutes
  std::optional<int32_t> max_in_flight = {};
  std::optional<int32_t> window_operations = {};
  Durability durability = Durability::kUnspecified;  // of the server's choice: kLocal, or as attached to
  std::optional<DataType> state_type = {};           // FLOAT16, BFLOAT16: half the memory; absent: as computed
  std::optional<int64_t> window_bytes = {};          // absent: replies of 256 steps
};

// What was agreed.
struct OpenedSession {
  std::string key;
  std::string fingerprint;
  bool created = false;  // else attached to
  uint64_t owner_epoch = 0;
  int64_t rows = 0;
  uint64_t last_applied = 0;
  uint64_t position = 0;  // steps
  int32_t max_in_flight = 0;
};

// The state after a number.
struct SessionState {
  uint64_t number = 0;
  uint64_t position = 0;  // steps
  std::string fingerprint;
  std::vector<Tensor> tensors;
};

struct SessionInfo {
  std::string key;
  std::string name;
  std::string model;
  std::string fingerprint;
  int64_t rows = 0;
  uint64_t last_applied = 0;
  uint64_t position = 0;
  std::chrono::nanoseconds idle{0};
  std::chrono::nanoseconds expires_in{0};
  int64_t state_bytes = 0;
};

struct ForkedSessions {
  std::vector<std::string> keys;
  uint64_t number = 0;  // where they start
  uint64_t owner_epoch = 0;
};

struct ClosedSession {
  uint64_t last_applied = 0;  // Close itself took this number
  uint64_t position = 0;
  std::vector<Tensor> state;  // if it was asked for
};

}  // namespace rnnserve::client
