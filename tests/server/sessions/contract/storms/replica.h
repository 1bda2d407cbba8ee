// SPDX-License-Identifier: Apache-2.0
// A server: the real sessions in memory, their records on a line to the store, and an engine that computes an operation
// at a time. The state of a session is a number that each operation's own number goes into, so that a lost, doubled or
// reordered operation shows in every later reply.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "server/sessions/contract/memory_sessions.h"
#include "tests/server/sessions/contract/storms/network_store.h"

namespace rnnserve::storms {

// What the state is after an operation of that content.
inline uint64_t After(uint64_t state, uint64_t content) { return state * 6364136223846793005u + content; }

class Replica {
 public:
  struct Answer {
    Outcome outcome;
    uint64_t state = 0;  // where it is OK
  };
  using Told = std::function<void(Answer)>;

  Replica(const Terms& terms, Events* events, StoreNode* node, PaddedCodec* codec, Figures* figures);
  ~Replica();

  struct Operation {
    uint64_t number = 0;
    uint64_t content = 0;
    bool closes = false;
  };
  struct OpenCall {
    Durability durability = Durability::kSync;
    std::string name = {};
    bool attach = false;
  };
  struct Opened {
    std::string key;
    uint64_t last_applied = 0;
  };
  using OpenTold = std::function<void(absl::StatusOr<Opened>)>;

  // Messages that have arrived. A replica that is killed before it answers does not answer; an Open is answered once
  // the store has the session.
  void Open(const OpenCall& call, OpenTold answer);
  void Apply(const std::string& key, const Operation& operation, Told told);

  void Kill();
  // As SIGSTOP does, and SIGCONT after that time.
  void Stop(absl::Duration within) { stopped_until_ = std::max(stopped_until_, events_->Now() + within); }
  bool is_alive() const { return is_alive_; }

 private:
  // Now, or when the process runs again.
  void Run(absl::AnyInvocable<void()> act);
  void OpenHere(const OpenCall& call, const std::optional<StoreFence>& fence, const OpenTold& told);
  void Find(std::string key, const Operation& operation, const Told& told);
  void Acquire(const SessionPtr& session, const Operation& operation, const Told& told);
  void Compute(Lease lease, const Operation& operation);
  void Tick();
  void Count(int64_t by);

  const Terms& terms_;
  Events* const events_;
  Figures* const figures_;
  StoreLine line_;
  SessionRecords records_;
  std::unique_ptr<MemorySessions> sessions_;
  std::deque<Lease> computing_;
  absl::Duration busy_until_ = absl::ZeroDuration();
  absl::Duration stopped_until_ = absl::ZeroDuration();
  absl::Duration next_sweep_ = absl::ZeroDuration();
  int64_t under_way_ = 0;
  bool is_alive_ = true;
};

}  // namespace rnnserve::storms
