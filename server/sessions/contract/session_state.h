// SPDX-License-Identifier: Apache-2.0
// What a session is between two operations, and what it hands out. All of it is immutable once made and shared by
// reference: forks, checkpoints, GetState and retries copy nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "engine/sequence.h"
#include "server/telemetry/session_metrics.h"

namespace rnnserve {

// The state of all rows in all layers. Handles belong to programs; this room does not look inside.
struct SessionState {
  // Most sessions have one row and one layer: its handle lies here.
  using Handles = absl::InlinedVector<std::shared_ptr<const State>, 1>;

  int64_t rows = 1;
  // [layer][row]: rows handles for each layer, or empty for zeros everywhere. A null handle is a state of zeros.
  Handles handles;
  // The bytes charged for it: as if no handle were null or shared.
  int64_t bytes = 0;
};
using SessionStatePtr = std::shared_ptr<const SessionState>;

// What a session runs: model, programs, options. The core derives its own and gets it back with each lease. Shared by
// forks; lives as long as a session needs it.
class SessionSubject {
 public:
  // `counters` of the model; null: not counted.
  explicit SessionSubject(SessionCountersPtr counters = nullptr) : counters_(std::move(counters)) {}
  virtual ~SessionSubject() = default;

  // Whether the states of its sessions are gone for good: the engine that held them has failed.
  virtual bool IsLost() const { return false; }

  const SessionCounters* counters() const { return counters_.get(); }

 private:
  const SessionCountersPtr counters_;
};
using SessionSubjectPtr = std::shared_ptr<const SessionSubject>;

// The answer to an operation, kept for repetitions.
class KeptReply {
 public:
  virtual ~KeptReply() = default;
  // What it takes of the window.
  virtual int64_t bytes() const = 0;
};
using KeptReplyPtr = std::shared_ptr<const KeptReply>;

}  // namespace rnnserve
