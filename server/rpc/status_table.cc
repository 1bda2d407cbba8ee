// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/status_table.h"

#include <algorithm>
#include <string_view>

#include "base/field_error.h"
#include "base/rejection.h"
#include "base/retry_delay.h"
#include "google/rpc/error_details.pb.h"
#include "server/admission/limit_error.h"
#include "server/rpc/wire_text.h"
#include "server/sessions/contract/session_error.h"

namespace rnnserve {
namespace {

constexpr size_t kMaxMessageBytes = 1024;
constexpr size_t kMaxFieldBytes = 256;
constexpr int32_t kRetryAfterBusyMs = 100;
constexpr int32_t kRetryAfterUnavailableMs = 1000;

struct Row {
  absl::StatusCode from;
  grpc::StatusCode to;
  int32_t retry_after_ms;  // 0: the same request will not succeed later
};

// Codes have the same meanings on both sides; the table says which ones callers see, and when to retry.
constexpr Row kTable[] = {
    {absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED, 0},
    {absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT, 0},
    {absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED, 0},
    {absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND, 0},
    {absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS, 0},
    {absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED, 0},
    {absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED, 0},
    {absl::StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED, kRetryAfterBusyMs},
    {absl::StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION, 0},
    {absl::StatusCode::kAborted, grpc::StatusCode::ABORTED, 0},
    {absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE, 0},
    {absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED, 0},
    {absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL, 0},
    {absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE, kRetryAfterUnavailableMs},
    {absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS, 0},
};

Row RowOf(absl::StatusCode code) {
  for (const Row& row : kTable) {
    if (row.from == code) return row;
  }
  return {code, grpc::StatusCode::UNKNOWN, 0};
}

void AddBadRequest(const absl::Status& status, const std::string& message, google::rpc::Status& details) {
  const std::optional<std::string> field = FieldOf(status);
  if (!field) return;
  google::rpc::BadRequest bad_request;
  auto* violation = bad_request.add_field_violations();
  violation->set_field(WireText(*field, kMaxFieldBytes));
  violation->set_description(message);
  details.add_details()->PackFrom(bad_request);
}

void AddErrorInfo(const absl::Status& status, google::rpc::Status& details) {
  std::optional<std::string> reason = ReasonOf(status);
  if (!reason && absl::IsUnimplemented(status)) reason = "ENGINE_UNSUPPORTED";  // only engines say so
  const std::optional<Numbers> numbers = NumbersOf(status);
  if (!reason && !numbers) return;
  google::rpc::ErrorInfo info;
  info.set_reason(reason.value_or("OPERATION_FAILED"));
  info.set_domain("rnnserve");
  if (numbers) {
    (*info.mutable_metadata())["last_applied"] = std::to_string(numbers->last_applied);
    (*info.mutable_metadata())["next_expected"] = std::to_string(numbers->next_expected());
  }
  if (const std::optional<std::string> cause = EndCauseOf(status)) (*info.mutable_metadata())["cause"] = *cause;
  if (const std::optional<LimitExcess> excess = LimitOf(status)) {
    (*info.mutable_metadata())["limit"] = std::to_string(excess->limit);
    (*info.mutable_metadata())["value"] = std::to_string(excess->value);
  }
  details.add_details()->PackFrom(info);
}

void AddQuotaFailure(const absl::Status& status, const std::string& message, google::rpc::Status& details) {
  const std::optional<std::string> subject = QuotaSubjectOf(status);
  if (!subject) return;
  google::rpc::QuotaFailure failure;
  auto* violation = failure.add_violations();
  violation->set_subject(*subject);
  violation->set_description(message);
  details.add_details()->PackFrom(failure);
}

// The core's own estimate, if it made one.
int32_t RetryAfterMs(const absl::Status& status, const Row& row) {
  const std::optional<absl::Duration> delay = RetryDelayOf(status);
  if (row.retry_after_ms == 0 || !delay) return row.retry_after_ms;
  if (*delay == absl::InfiniteDuration()) return 0;
  return static_cast<int32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(*delay), 1, 600'000));
}

void AddRetryInfo(int32_t retry_after_ms, google::rpc::Status& details) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(retry_after_ms / 1000);
  retry.mutable_retry_delay()->set_nanos(retry_after_ms % 1000 * 1'000'000);
  details.add_details()->PackFrom(retry);
}

}  // namespace

WireError ToWireError(const absl::Status& status) {
  const Row row = RowOf(status.code());
  WireError error;
  error.code = row.to;
  error.message = WireText({status.message().data(), status.message().size()}, kMaxMessageBytes);
  google::rpc::Status details;
  AddBadRequest(status, error.message, details);
  AddErrorInfo(status, details);
  AddQuotaFailure(status, error.message, details);
  if (const int32_t retry_after_ms = RetryAfterMs(status, row); retry_after_ms > 0) {
    error.retry_after_ms = retry_after_ms;
    AddRetryInfo(retry_after_ms, details);
  }
  if (details.details().empty()) return error;
  details.set_code(row.to);
  details.set_message(error.message);
  error.details = details.SerializeAsString();
  return error;
}

}  // namespace rnnserve
