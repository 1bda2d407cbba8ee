// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/session_error.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rejection.h"
#include "base/status_payload.h"

namespace rnnserve {
namespace {

constexpr char kNumbersUrl[] = "rnnserve/numbers";  // "last applied,position"
constexpr char kElsewhere[] = "SESSION_ELSEWHERE";
constexpr char kCauseUrl[] = "rnnserve/cause";

absl::Status Aborted(std::string_view reason, std::string_view message) {
  return SessionError(absl::StatusCode::kAborted, reason, message);
}

}  // namespace

absl::Status SessionError(absl::StatusCode code, std::string_view reason, std::string_view message) {
  return WithReason(absl::Status(code, View(message)), reason);
}

absl::Status WithNumbers(absl::Status status, const Numbers& numbers) {
  if (!status.ok()) SetPair(status, kNumbersUrl, numbers.last_applied, numbers.position);
  return status;
}

std::optional<Numbers> NumbersOf(const absl::Status& status) {
  const auto numbers = PairOf<uint64_t>(status, kNumbersUrl);
  if (!numbers) return std::nullopt;
  return Numbers{.last_applied = numbers->first, .position = numbers->second};
}

absl::Status QuotaError(std::string_view subject, std::string_view message) {
  return WithReason(OverQuota(subject, message), "QUOTA_EXCEEDED");
}

absl::Status OlderOwner(std::string_view what) {
  return Aborted("OLDER_OWNER",
                 absl::StrCat(View(what),
                              "; if that one has sent this operation, too, it may have been applied: ask "
                              "for its number again, unchanged, before sending it under another"));
}

absl::Status NumberReused(uint64_t number) {
  return Aborted("NUMBER_REUSED", absl::StrCat("number ", number,
                                               " has been used for an operation of other content, so this one was not "
                                               "applied; new operations go on at next_expected"));
}

absl::Status Fenced(uint64_t carried, uint64_t newest) {
  return Aborted("FENCED",
                 absl::StrCat("the operation carries owner epoch ", carried, ", but the session's is ", newest,
                              ": another Open has attached to it since, and nothing was changed; Open with "
                              "attach gives a newer one"));
}

absl::Status Behind(uint64_t number, const absl::Status& why) {
  absl::Status status(why.code(), absl::StrCat("operation ", number,
                                               " before this one was refused, and so is this one: ", why.message()));
  why.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
  return status;
}

absl::Status TooLarge(std::string_view message, LimitExcess excess) {
  absl::Status status = SessionError(absl::StatusCode::kInvalidArgument, "LIMIT_EXCEEDED", message);
  return WithLimit(WithRejection(std::move(status), Rejection::kTooLarge), excess);
}

absl::Status TooManyInFlight(std::string_view message) {
  return WithRejection(SessionError(absl::StatusCode::kResourceExhausted, "TOO_MANY_IN_FLIGHT", message),
                       Rejection::kQuota);
}

absl::Status SessionElsewhere() {
  return SessionError(absl::StatusCode::kUnavailable, kElsewhere,
                      "the session is not in this process; send the operation again");
}

bool IsElsewhere(const absl::Status& status) { return absl::IsUnavailable(status) && ReasonOf(status) == kElsewhere; }

absl::Status NameTaken() {
  return SessionError(absl::StatusCode::kAlreadyExists, "NAME_TAKEN",
                      "there is a live session of that name; set attach to be given its key, or take another name");
}

absl::Status UnknownSession() {
  return SessionError(absl::StatusCode::kNotFound, "SESSION_UNKNOWN",
                      "this server never gave out that session key; use the key that Open answered with");
}

absl::Status EndedSession(EndCause cause) {
  if (cause == EndCause::kMoved) {
    return SessionError(absl::StatusCode::kAborted, "TAKEN_OVER",
                        "another server has taken the session over meanwhile; send the operation again, unchanged: "
                        "whichever server gets it goes on from the store");
  }
  const char* const name = cause == EndCause::kClosed ? "closed" : cause == EndCause::kExpired ? "expired" : "unknown";
  const char* const text = cause == EndCause::kClosed ? "the session was closed"
                           : cause == EndCause::kExpired
                               ? "the session expired: it was idle for longer than its timeout"
                               : "the session ended some time ago";
  absl::Status status =
      SessionError(absl::StatusCode::kNotFound, "SESSION_ENDED", absl::StrCat(text, "; open another"));
  SetPayload(status, kCauseUrl, name);
  return status;
}

std::optional<std::string> EndCauseOf(const absl::Status& status) { return PayloadOf(status, kCauseUrl); }

}  // namespace rnnserve
