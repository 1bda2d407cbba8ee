// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/session_error.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/rejection.h"

namespace rnnserve {
namespace {

constexpr char kNumbersUrl[] = "rnnserve/numbers";  // "last applied,position"
constexpr char kCauseUrl[] = "rnnserve/cause";

std::optional<std::string> Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status SessionError(absl::StatusCode code, std::string_view reason, std::string_view message) {
  return WithReason(absl::Status(code, View(message)), reason);
}

absl::Status WithNumbers(absl::Status status, const Numbers& numbers) {
  if (!status.ok())
    status.SetPayload(kNumbersUrl, absl::Cord(absl::StrCat(numbers.last_applied, ",", numbers.position)));
  return status;
}

std::optional<Numbers> NumbersOf(const absl::Status& status) {
  const std::optional<std::string> payload = Payload(status, kNumbersUrl);
  if (!payload) return std::nullopt;
  const std::pair<std::string, std::string> parts = absl::StrSplit(*payload, ',');
  Numbers numbers;
  if (!absl::SimpleAtoi(parts.first, &numbers.last_applied) || !absl::SimpleAtoi(parts.second, &numbers.position)) {
    return std::nullopt;
  }
  return numbers;
}

absl::Status QuotaError(std::string_view subject, std::string_view message) {
  return WithReason(OverQuota(subject, message), "QUOTA_EXCEEDED");
}

absl::Status TooLarge(std::string_view message, LimitExcess excess) {
  absl::Status status = SessionError(absl::StatusCode::kInvalidArgument, "LIMIT_EXCEEDED", message);
  return WithLimit(WithRejection(std::move(status), Rejection::kTooLarge), excess);
}

absl::Status TooManyInFlight(std::string_view message) {
  return WithRejection(SessionError(absl::StatusCode::kResourceExhausted, "TOO_MANY_IN_FLIGHT", message),
                       Rejection::kQuota);
}

absl::Status UnknownSession() {
  return SessionError(absl::StatusCode::kNotFound, "SESSION_UNKNOWN",
                      "this server never gave out that session key; use the key that Open answered with");
}

absl::Status EndedSession(EndCause cause) {
  const char* const name = cause == EndCause::kClosed ? "closed" : cause == EndCause::kExpired ? "expired" : "unknown";
  const char* const text = cause == EndCause::kClosed ? "the session was closed"
                           : cause == EndCause::kExpired
                               ? "the session expired: it was idle for longer than its timeout"
                               : "the session ended some time ago";
  absl::Status status =
      SessionError(absl::StatusCode::kNotFound, "SESSION_ENDED", absl::StrCat(text, "; open another"));
  status.SetPayload(kCauseUrl, absl::Cord(name));
  return status;
}

std::optional<std::string> EndCauseOf(const absl::Status& status) { return Payload(status, kCauseUrl); }

}  // namespace rnnserve
