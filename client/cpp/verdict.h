// SPDX-License-Identifier: Apache-2.0
// What a server's answer to one operation of a session means for the stream it came on. Inside the library only.
#pragma once

#include "absl/status/status.h"
#include "rnnserve/v1/sessions.pb.h"

namespace rnnserve::client {

enum class Verdict {
  kApplied,
  // The session is unchanged; retry the same operation after a while.
  kRetry,
  // The same, but on another server: this one drains, or cannot go on with a durable session.
  kDraining,
  // The operation is wrong, or its own time limit has passed: the caller gets the error. The session is unchanged.
  kRefused,
  // The session, or the reply, is not on this server any more.
  kLost,
  // Another owner has the session now, or it was closed on purpose: the stream does not recover.
  kOver,
};

struct Answer {
  Verdict verdict = Verdict::kApplied;
  absl::Status status;  // why not, if it was not applied
};

Answer JudgeAnswer(const v1::OperationStatus& status);

// Of a whole stream, or of a call that was to open a session: whether another try may go better.
bool IsTransient(const absl::Status& status);

}  // namespace rnnserve::client
