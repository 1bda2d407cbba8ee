// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/operation_fate.h"

#include <utility>

#include "client/cpp/status.h"
#include "engine/op/field_error.h"

namespace rnnserve::client {
namespace {

Fate FateOf(const absl::Status& status, bool retryable) {
  const std::string reason = ReasonOf(status).value_or("");
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Fate::kApplied;
    case absl::StatusCode::kUnavailable:
      return reason == "DRAINING" ? Fate::kDraining : Fate::kRetry;
    case absl::StatusCode::kDataLoss:       // of another boot
    case absl::StatusCode::kAlreadyExists:  // older than the window
    case absl::StatusCode::kOutOfRange:     // the session is older than what it has already answered
      return Fate::kLost;
    case absl::StatusCode::kNotFound:
      if (reason == "SESSION_UNKNOWN") return Fate::kLost;
      if (reason == "SESSION_ENDED") return EndCauseOf(status) == "closed" ? Fate::kOver : Fate::kLost;
      return Fate::kRefused;
    case absl::StatusCode::kAborted:
      // The predecessor's own answer says what is to be done; this one only follows it. Whatever else is ABORTED may
      // have been applied, or is another owner's matter: never sent again.
      return reason == "PREVIOUS_FAILED" ? Fate::kRetry : Fate::kOver;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return Fate::kOver;
    default:
      return retryable ? Fate::kRetry : Fate::kRefused;
  }
}

}  // namespace

Answer JudgeAnswer(const v1::OperationStatus& wire) {
  absl::Status status = FromOperation(wire);
  const Fate fate = FateOf(status, wire.retryable());
  return {fate, std::move(status)};
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
