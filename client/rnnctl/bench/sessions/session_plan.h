// SPDX-License-Identifier: Apache-2.0
// Flags of `rnnctl bench` that are about sessions.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "client/cpp/session_types.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

inline constexpr int64_t kMaxSessions = 1 << 20;

struct SessionPlan {
  int64_t streams = 1;
  int64_t operations = 1;               // a message, at most
  int64_t life = 0;                     // chunks of a session; 0: no end
  std::optional<int64_t> kept_replies;  // the window; absent: the server's default
  std::optional<int64_t> kept_bytes;
  client::Durability durability = client::Durability::kUnspecified;
  Time cadence{0};  // 0: closed loop
  bool irregular = false;
  std::optional<Time> find;  // the largest number of sessions whose p99 is not above this
};

// Nothing without --sessions. Flags that go with --sessions only, or not with it, are refused.
absl::StatusOr<std::optional<SessionPlan>> SessionPlanFrom(const Arguments& arguments);

}  // namespace rnnserve::rnnctl::bench
