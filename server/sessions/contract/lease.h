// SPDX-License-Identifier: Apache-2.0
// Exclusive use of a session for one operation, in order. Move-only.
//
//   std::move(lease).Commit({.state = after, .position = ..., .reply = reply});  // one swap; answers waiting callers
//   std::move(lease).Fail(status);                                             // the session stays as it was
//
// A lease that is destroyed without either fails its operation. A lease pins its session.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/sessions/contract/operation.h"

namespace rnnserve {

// What an operation makes of a session.
struct Change {
  SessionStatePtr state;
  uint64_t position = 0;
  KeptReplyPtr reply;
  bool closes = false;
};

class Session;

class Lease {
 public:
  // The session's lock is held.
  Lease(std::shared_ptr<Session> session, uint64_t grant);
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&&) = delete;
  ~Lease();

  // The session's, as they are until Commit; also where the session has ended meanwhile (another server has it).
  const SessionStatePtr& state() const { return state_; }
  const Numbers& numbers() const;
  // NOT_FOUND names the existing ones.
  absl::StatusOr<Snapshot> FindCheckpoint(const std::string& name) const;
  // Whether a reply of `bytes` can be kept, for operations whose reply depends on the state they find.
  absl::Status CheckReply(int64_t bytes) const;

  void Commit(Change change) &&;
  void Fail(absl::Status status) &&;

 private:
  std::shared_ptr<Session> session_;
  uint64_t grant_;  // the session's, which a later one outdates
  SessionStatePtr state_;
};

}  // namespace rnnserve
