// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/status.h"

#include <grpcpp/support/status.h>

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "google/rpc/error_details.pb.h"
#include "rnnserve/v1/sessions.pb.h"

namespace rnnserve::client {
namespace {

constexpr char kRetryDelayUrl[] = "rnnserve/retry_delay_ms";
constexpr char kCauseUrl[] = "rnnserve/cause";

absl::StatusCode CodeOf(int code) {  // gRPC's and Abseil's codes have the same numbers
  return code >= 1 && code <= 16 ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
}

// A day bounds what a server can make a caller wait, and keeps the sum far from overflow.
int64_t Milliseconds(const google::protobuf::Duration& duration) {
  constexpr int64_t kDaySeconds = 86400;
  const int64_t seconds = std::min(std::max<int64_t>(duration.seconds(), 0), kDaySeconds);
  return seconds * 1000 + std::max(duration.nanos(), 0) / 1'000'000;
}

void AddDetail(const google::protobuf::Any& detail, absl::Status& result) {
  google::rpc::ErrorInfo info;
  google::rpc::RetryInfo retry;
  if (detail.Is<google::rpc::ErrorInfo>() && detail.UnpackTo(&info)) {
    result = WithReason(result, info.reason());
    const auto cause = info.metadata().find("cause");
    if (cause != info.metadata().end()) result.SetPayload(kCauseUrl, absl::Cord(cause->second));
  } else if (detail.Is<google::rpc::RetryInfo>() && detail.UnpackTo(&retry)) {
    result.SetPayload(kRetryDelayUrl, absl::Cord(absl::StrCat(Milliseconds(retry.retry_delay()))));
  }
}

using Details = google::protobuf::RepeatedPtrField<google::protobuf::Any>;

absl::Status FromParts(int code, const std::string& message, const Details& details) {
  absl::Status result(CodeOf(code), message);
  for (const google::protobuf::Any& detail : details) {
    google::rpc::BadRequest bad;
    if (result.code() == absl::StatusCode::kInvalidArgument && detail.Is<google::rpc::BadRequest>() &&
        detail.UnpackTo(&bad) && bad.field_violations_size() > 0) {
      result = FieldError(bad.field_violations(0).field(), message);
      break;
    }
  }
  for (const google::protobuf::Any& detail : details) AddDetail(detail, result);
  return result;
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) details.Clear();
  return FromParts(status.error_code(), status.error_message(), details.details());
}

absl::Status FromOperation(const v1::OperationStatus& status) {
  if (status.code() == 0) return absl::OkStatus();
  return FromParts(status.code(), status.message(), status.details());
}

std::optional<std::chrono::milliseconds> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryDelayUrl);
  int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms)) return std::nullopt;
  return std::chrono::milliseconds(ms);
}

std::optional<std::string> EndCauseOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kCauseUrl);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

}  // namespace rnnserve::client
