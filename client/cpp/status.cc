// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/status.h"

#include <grpcpp/support/status.h>

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/op/field_error.h"
#include "google/rpc/error_details.pb.h"

namespace rnnserve::client {
namespace {

constexpr char kRetryDelayUrl[] = "rnnserve/retry_delay_ms";

absl::StatusCode CodeOf(const grpc::Status& status) {
  const int code = status.error_code();  // gRPC's and Abseil's codes have the same numbers
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
  } else if (detail.Is<google::rpc::RetryInfo>() && detail.UnpackTo(&retry)) {
    result.SetPayload(kRetryDelayUrl, absl::Cord(absl::StrCat(Milliseconds(retry.retry_delay()))));
  }
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(CodeOf(status), status.error_message());
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return result;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::BadRequest bad;
    if (result.code() == absl::StatusCode::kInvalidArgument && detail.Is<google::rpc::BadRequest>() &&
        detail.UnpackTo(&bad) && bad.field_violations_size() > 0) {
      result = FieldError(bad.field_violations(0).field(), status.error_message());
      break;
    }
  }
  for (const google::protobuf::Any& detail : details.details()) AddDetail(detail, result);
  return result;
}

std::optional<std::chrono::milliseconds> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryDelayUrl);
  int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms)) return std::nullopt;
  return std::chrono::milliseconds(ms);
}

}  // namespace rnnserve::client
