// SPDX-License-Identifier: Apache-2.0
#include "base/rejection.h"

#include <algorithm>
#include <string>

#include "base/status_payload.h"

namespace rnnserve {
namespace {

constexpr char kUrl[] = "rnnserve/rejection";
constexpr char kQuotaUrl[] = "rnnserve/quota";

std::optional<Rejection> ReasonOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kResourceExhausted:
      return Rejection::kQueueFull;
    case absl::StatusCode::kDeadlineExceeded:
      return Rejection::kDeadline;
    case absl::StatusCode::kUnavailable:
      return Rejection::kDraining;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return Rejection::kInvalid;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::Status WithRejection(absl::Status status, Rejection why) {
  SetPayload(status, kUrl, kRejectionNames[static_cast<size_t>(why)]);
  return status;
}

absl::Status Overloaded(Rejection why, std::string_view message) {
  return WithRejection(absl::ResourceExhaustedError(View(message)), why);
}

absl::Status OverQuota(std::string_view subject, std::string_view message) {
  absl::Status status = Overloaded(Rejection::kQuota, message);
  SetPayload(status, kQuotaUrl, subject);
  return status;
}

std::optional<std::string> QuotaSubjectOf(const absl::Status& status) { return PayloadOf(status, kQuotaUrl); }

std::optional<Rejection> RejectionOf(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  const auto payload = status.GetPayload(kUrl);
  if (!payload) return ReasonOfCode(status.code());
  const auto name = std::ranges::find(kRejectionNames, std::string(*payload));
  if (name == kRejectionNames.end()) return ReasonOfCode(status.code());
  return static_cast<Rejection>(name - kRejectionNames.begin());
}

}  // namespace rnnserve
