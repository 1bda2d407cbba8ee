// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/status.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "google/rpc/error_details.pb.h"
#include "tests/client/cpp/fake_server.h"

namespace rnnserve::client {
namespace {

grpc::Status WithDetails(grpc::StatusCode code, const std::vector<google::protobuf::Any>& details) {
  google::rpc::Status wire;
  for (const auto& detail : details) *wire.add_details() = detail;
  return grpc::Status(code, "text", wire.SerializeAsString());
}

TEST(StatusTest, CodesKeepTheirNumbers) {
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status = FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(code), "text"));
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(status.message(), "text");
  }
  EXPECT_EQ(FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(30), "text")).code(), absl::StatusCode::kUnknown);
}

TEST(StatusTest, FieldAndReasonTogether) {
  const absl::Status status = FromGrpc(
      WithDetails(grpc::INVALID_ARGUMENT, {ReasonDetail("LIMIT_EXCEEDED"), FieldDetail("outputs[2]", "too much")}));
  EXPECT_EQ(FieldOf(status), "outputs[2]");
  EXPECT_EQ(ReasonOf(status), "LIMIT_EXCEEDED");
}

TEST(StatusTest, DetailsThatDoNotParseArePassedOver) {
  const absl::Status garbage = FromGrpc(grpc::Status(grpc::NOT_FOUND, "text", "\xff\xff not a message"));
  EXPECT_EQ(garbage.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(garbage), std::nullopt);
  google::protobuf::Any broken = ReasonDetail("R");
  broken.set_value("\xff");
  google::rpc::BadRequest empty;
  const absl::Status status = FromGrpc(WithDetails(grpc::INVALID_ARGUMENT, {broken, Pack(empty)}));
  EXPECT_EQ(ReasonOf(status), std::nullopt);
  EXPECT_EQ(FieldOf(status), std::nullopt);
}

TEST(StatusTest, RetryDelayIsBounded) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(INT64_MAX);
  EXPECT_EQ(RetryDelayOf(FromGrpc(WithDetails(grpc::UNAVAILABLE, {Pack(retry)}))), std::chrono::hours(24));
  retry.mutable_retry_delay()->set_seconds(-5);
  EXPECT_EQ(RetryDelayOf(FromGrpc(WithDetails(grpc::UNAVAILABLE, {Pack(retry)}))), std::chrono::milliseconds(0));
}

}  // namespace
}  // namespace rnnserve::client
