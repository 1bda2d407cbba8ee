// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/call_log.h"

#include <gtest/gtest.h>

#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr char kGood[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(CheckedTraceparent, TakesWhatW3cSays) { EXPECT_EQ(CheckedTraceparent(kGood), kGood); }

TEST(CheckedTraceparent, NothingElse) {
  std::string wrong = kGood;
  EXPECT_EQ(CheckedTraceparent(wrong + "0"), "");
  EXPECT_EQ(CheckedTraceparent(wrong.substr(1)), "");
  EXPECT_EQ(CheckedTraceparent(""), "");
  for (size_t k = 0; k < wrong.size(); ++k) {
    std::string changed = wrong;
    changed[k] = '\n';
    EXPECT_EQ(CheckedTraceparent(changed), "") << k;
  }
}

TEST(CallLog, TellsOfTheServersFaultsOnly) {
  CallLog log;
  const grpc::ServerContext context;
  const size_t before = LatestProblems().size();
  for (const absl::Status& answer : {absl::OkStatus(), absl::InvalidArgumentError("x"), absl::UnavailableError("x"),
                                     absl::CancelledError("x"), absl::ResourceExhaustedError("x")}) {
    log.Ended("Recurrent.Infer", answer, "id", context);
  }
  EXPECT_EQ(LatestProblems().size(), before);
}

}  // namespace
}  // namespace rnnserve
