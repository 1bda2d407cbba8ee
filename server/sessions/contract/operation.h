// SPDX-License-Identifier: Apache-2.0
// Operations of callers on a session, and their outcomes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/sessions/contract/digest.h"
#include "server/sessions/contract/numbers.h"
#include "server/sessions/contract/session_state.h"

namespace rnnserve {

class Lease;

// The outcome of an operation.
struct Outcome {
  absl::Status status;  // errors carry the numbers, too
  // OK: as the operation left them. Else: as they are.
  Numbers numbers;
  // The operation's own; also the one that an unnumbered operation took.
  uint64_t number = 0;
  KeptReplyPtr reply;     // if OK
  bool repeated = false;  // from the window
  // Of a durable session: the last number that the store has; else 0.
  uint64_t durable_number = 0;
};
using OutcomeDone = absl::AnyInvocable<void(Outcome&&)>;

// What asks: each stream attaches to each of its sessions once, each numbered call attaches anew. A larger one is
// newer.
using Attachment = uint64_t;
inline constexpr Attachment kNoAttachment = 0;  // an unnumbered call: it never owns a session

// An operation that wants to change a session.
struct Claim {
  std::optional<uint64_t> number;
  Digest digest;
  Attachment attachment = kNoAttachment;
  bool of_stream = false;  // a stream's attachment, which lasts; a call's ends with the call
  // The owner epoch that the caller got from Open, if it sends one: one older than the session's newest is FENCED.
  std::optional<uint64_t> owner_epoch;
  // What its reply will take of the window.
  int64_t reply_bytes = 0;
  // The operation's own time limit, by the sessions' clock.
  absl::Duration deadline = absl::InfiniteDuration();
  // Close: allowed while the server drains.
  bool closes = false;
  // The operation's own mistake; reported once its number is known to be new.
  absl::Status fault;
  // Called once when this operation is next to be computed, with exclusive use of the session.
  absl::AnyInvocable<void(Lease&&)> granted;
  // Called exactly once. Neither is called with a lock held; both may be called during Acquire.
  OutcomeDone done;
};

// A session as it was after a number.
struct Snapshot {
  Numbers numbers;
  SessionStatePtr state;
  SessionSubjectPtr subject;
};
using SnapshotDone = absl::AnyInvocable<void(absl::StatusOr<Snapshot>)>;

// GetState, Fork and Checkpoint: see a session without changing it.
struct ReadRequest {
  // Waits for this number if it is in flight. Absent: what is applied when the call takes effect.
  std::optional<uint64_t> after_number;
  // Without after_number: after all that is in flight now, for callers whose operations keep an order.
  bool in_order = false;
  // Not empty: names the state, to Rewind to.
  std::string checkpoint;
  // The state leaves the server, e.g. by GetState.
  bool carries_over = false;
  SnapshotDone done;  // called exactly once
};

}  // namespace rnnserve
