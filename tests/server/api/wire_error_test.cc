// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "base/retry_delay.h"
#include "google/rpc/error_details.pb.h"
#include "server/admission/limit_error.h"
#include "server/rpc/status_table.h"
#include "server/rpc/wire_text.h"

namespace rnnserve {
namespace {

TEST(WireError, KeepsEveryCode) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "text");
    EXPECT_EQ(static_cast<int>(ToWireError(status).code), code);
    EXPECT_EQ(ToWireError(status).message, "text");
  }
}

TEST(WireError, CarriesFieldReasonAndNumbers) {
  const WireError error = ToWireError(LimitError("outputs", "too large", {.limit = 8, .value = 16}));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(error.details));
  EXPECT_EQ(details.code(), 3);
  EXPECT_EQ(details.message(), "too large");
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.details(0).UnpackTo(&bad_request));
  EXPECT_EQ(bad_request.field_violations(0).field(), "outputs");
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(1).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "LIMIT_EXCEEDED");
  EXPECT_EQ(info.domain(), "rnnserve");
  EXPECT_EQ(info.metadata().at("value"), "16");
  EXPECT_FALSE(error.retry_after_ms);
}

TEST(WireError, AnEngineThatCannotHasAReason) {
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(ToWireError(absl::UnimplementedError("engine \"x\": no clip")).details));
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "ENGINE_UNSUPPORTED");
  EXPECT_EQ(info.domain(), "rnnserve");
}

TEST(WireError, SaysWhenToComeAgainOnlyWhereThatHelps) {
  EXPECT_TRUE(ToWireError(absl::ResourceExhaustedError("full")).retry_after_ms);
  EXPECT_TRUE(ToWireError(absl::UnavailableError("leaving")).retry_after_ms);
  EXPECT_EQ(ToWireError(WithRetryDelay(absl::UnavailableError("busy"), absl::Seconds(3))).retry_after_ms, 3000);
  EXPECT_FALSE(ToWireError(WithRetryDelay(absl::UnavailableError("gone"), absl::InfiniteDuration())).retry_after_ms);
  EXPECT_FALSE(ToWireError(absl::InvalidArgumentError("no")).retry_after_ms);
  EXPECT_TRUE(ToWireError(absl::InvalidArgumentError("no")).details.empty());
}

TEST(WireError, FitsInATrailer) {
  const WireError error = ToWireError(FieldError(std::string(100'000, 'f'), std::string(100'000, 'm')));
  EXPECT_LT(error.message.size() + error.details.size(), 4096u);
}

TEST(WireText, LeavesGoodTextAlone) {
  EXPECT_EQ(WireText("", 10), "");
  EXPECT_EQ(WireText("0123456789", 10), "0123456789");
  EXPECT_EQ(WireText("h\xc3\xa9, \xe2\x82\xac \xf0\x9f\x98\x80", 100), "h\xc3\xa9, \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST(WireText, CutsBetweenCharacters) {
  EXPECT_EQ(WireText("0123456789a", 10), "0123456...");
  EXPECT_EQ(WireText("\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 10), "\xe2\x82\xac\xe2\x82\xac...");
}

TEST(WireText, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(WireText("a\xff"
                     "b",
                     10),
            "a?b");
  EXPECT_EQ(WireText("\xe2\x82", 10), "??");            // cut short
  EXPECT_EQ(WireText("\xc0\x80", 10), "??");            // overlong
  EXPECT_EQ(WireText("\xed\xa0\x80", 10), "???");       // a surrogate
  EXPECT_EQ(WireText("\xf4\x90\x80\x80", 10), "????");  // above U+10FFFF
}

}  // namespace
}  // namespace rnnserve
