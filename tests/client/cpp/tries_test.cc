// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/tries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "client/cpp/status.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/status.h"

namespace rnnserve::client {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Ge;
using testing::Le;

const TryTime kBegan = TryTime(std::chrono::hours(1));
const absl::Status kLost = absl::UnavailableError("no answer");
const absl::Status kNoEngine = WithReason(absl::UnavailableError("the device is lost"), "ENGINE_OUT_OF_SERVICE");

absl::Status Refused(int ms, int code = 14) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(ms / 1000);
  retry.mutable_retry_delay()->set_nanos(ms % 1000 * 1'000'000);
  google::rpc::Status details;
  details.add_details()->PackFrom(retry);
  return FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(code), "leaving", details.SerializeAsString()));
}

TEST(TriesTest, ARefusalIsTheServersOwnWord) {
  EXPECT_TRUE(IsRefusal(Refused(1000)));
  EXPECT_TRUE(IsRefusal(WithReason(kLost, "DRAINING")));
  EXPECT_FALSE(IsRefusal(kLost));
  EXPECT_FALSE(IsRefusal(Refused(1000, 8))) << "busy";
  EXPECT_TRUE(IsFromServer(Refused(1000)));
  EXPECT_TRUE(IsFromServer(absl::OkStatus()));
  EXPECT_TRUE(IsFromServer(absl::NotFoundError("no such model")));
  EXPECT_FALSE(IsFromServer(kLost));
  EXPECT_FALSE(IsFromServer(absl::DeadlineExceededError("")));
}

TEST(TriesTest, PausesDoubleUpToASecond) {
  Tries tries({0}, kBegan, /*seed=*/3);
  TryTime now = kBegan;
  for (const int ms : {50, 100, 200, 400, 800, 1000, 1000}) {
    const TryTime next = tries.Failed(kLost, now);
    EXPECT_THAT(next - now, AllOf(Ge(milliseconds(ms * 8 / 10)), Le(milliseconds(ms * 12 / 10)))) << ms;
    now = next;
  }
}

TEST(TriesTest, AServerIsAskedAgainWhenItSaid) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const TryTime next = Tries({0}, kBegan, seed).Failed(Refused(3000), kBegan);
    EXPECT_THAT(next - kBegan, AllOf(Ge(milliseconds(3000)), Le(milliseconds(3600))));
  }
}

TEST(TriesTest, TheOthersAreAskedAtOnceAndThenWhoeverIsDueFirst) {
  Tries tries({2, 0, 1}, kBegan, /*seed=*/5);
  EXPECT_EQ(tries.server(), 2u);
  EXPECT_EQ(tries.Failed(Refused(1000), kBegan), kBegan);
  EXPECT_EQ(tries.server(), 0u);
  EXPECT_EQ(tries.Failed(kLost, kBegan), kBegan);
  EXPECT_EQ(tries.server(), 1u);
  TryTime now = kBegan;
  now = tries.Failed(Refused(5000), now);
  EXPECT_EQ(tries.server(), 0u) << "it named no time";
  for (int k = 0; k < 4; ++k) now = tries.Failed(kLost, now);
  EXPECT_EQ(tries.server(), 2u);
  EXPECT_GE(now, kBegan + milliseconds(1000));
}

TEST(TriesTest, OneWithoutTheEngineIsNotAskedAgain) {
  EXPECT_TRUE(LacksEngine(kNoEngine) && IsFromServer(kNoEngine) && !IsRefusal(kNoEngine) && !LacksEngine(kLost));
  Tries tries({0, 1}, kBegan, /*seed=*/1);
  EXPECT_EQ(tries.Failed(kNoEngine, kBegan), kBegan);
  EXPECT_FALSE(tries.HasAskedAll());
  TryTime now = kBegan;
  for (int k = 0; k < 9; ++k) {
    EXPECT_EQ(tries.server(), 1u);
    now = tries.Failed(kLost, now);
    EXPECT_TRUE(tries.HasAskedAll());
  }
  EXPECT_EQ(tries.Failed(kNoEngine, now), TryTime::max());
}

TEST(TriesTest, AnErrorTellsHowOftenItWasTried) {
  Tries tries({0, 1}, kBegan, /*seed=*/1);
  EXPECT_EQ(tries.FinalStatus(absl::NotFoundError("no"), kBegan).message(), "no");
  EXPECT_TRUE(tries.FinalStatus(absl::OkStatus(), kBegan).ok());
  tries.Failed(kLost, kBegan);
  EXPECT_EQ(tries.FinalStatus(kLost, kBegan).message(), "no answer") << "once needs no word";
  tries.Failed(Refused(500), kBegan + milliseconds(2500));
  const absl::Status told = tries.FinalStatus(Refused(500), kBegan + milliseconds(2500));
  EXPECT_EQ(told.message(), "leaving (tried 2 times in 2.5 s)");
  EXPECT_EQ(RetryDelayOf(told), milliseconds(500));
  EXPECT_EQ(tries.FinalStatus(absl::DeadlineExceededError("too late"), kBegan + milliseconds(3000)).message(),
            "too late (tried 3 times in 3.0 s; before that UNAVAILABLE: leaving)");
  EXPECT_TRUE(tries.FinalStatus(absl::OkStatus(), kBegan).ok());
}

}  // namespace
}  // namespace rnnserve::client
