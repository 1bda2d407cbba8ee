// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/verdict.h"

#include <utility>

#include "base/field_error.h"
#include "client/cpp/status.h"

namespace rnnserve::client {
namespace {

Verdict VerdictOf(const absl::Status& status, bool retryable) {
  const std::string reason = ReasonOf(status).value_or("");
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Verdict::kApplied;
    case absl::StatusCode::kUnavailable:
      return reason == "DRAINING" ? Verdict::kDraining : Verdict::kRetry;
    case absl::StatusCode::kDataLoss:       // of another boot
    case absl::StatusCode::kAlreadyExists:  // older than the window
    case absl::StatusCode::kOutOfRange:     // the session is older than what it has already answered
      return Verdict::kLost;
    case absl::StatusCode::kNotFound:
      if (reason == "SESSION_UNKNOWN") return Verdict::kLost;
      if (reason == "SESSION_ENDED") return EndCauseOf(status) == "closed" ? Verdict::kOver : Verdict::kLost;
      return Verdict::kRefused;
    case absl::StatusCode::kAborted:
      // The predecessor's own answer says what is to be done; this one only follows it. Whatever else is ABORTED may
      // have been applied, or is another owner's matter: never sent again.
      return reason == "PREVIOUS_FAILED" || reason == "TAKEN_OVER" ? Verdict::kRetry : Verdict::kOver;
    case absl::StatusCode::kFailedPrecondition:  // of a durable session: another server can go on with it
      return reason == "MODEL_MISSING" || reason == "RECORD_TOO_NEW" ? Verdict::kDraining : Verdict::kRefused;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return Verdict::kOver;
    default:
      return retryable ? Verdict::kRetry : Verdict::kRefused;
  }
}

}  // namespace

Answer JudgeAnswer(const v1::OperationStatus& wire) {
  absl::Status status = FromOperation(wire);
  const Verdict verdict = VerdictOf(status, wire.retryable());
  return {verdict, std::move(status)};
}

bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:  // a killed server, directly
    case absl::StatusCode::kInternal:     // through nginx
    case absl::StatusCode::kCancelled:    // through HAProxy
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    case absl::StatusCode::kResourceExhausted:
      return RetryDelayOf(status).has_value();  // without: a message above the transport's limit
    default:
      return false;
  }
}

}  // namespace rnnserve::client
