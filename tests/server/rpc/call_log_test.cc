// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/call_log.h"

#include <gtest/gtest.h>

#include "server/admission/limit_error.h"
#include "server/sessions/contract/session_error.h"
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

TEST(CallLog, AnswersAreNoProblems) {
  CallLog log;
  const grpc::ServerContext context;
  const size_t before = LatestProblems().size();
  for (const absl::Status& answer : {absl::OkStatus(), absl::InvalidArgumentError("x"), absl::UnavailableError("x"),
                                     absl::CancelledError("x"), absl::ResourceExhaustedError("x")}) {
    log.Ended("Recurrent.Infer", answer, {}, context);
  }
  EXPECT_EQ(LatestProblems().size(), before);
}

TEST(CallLog, EachKindIsToldOnce) {
  CallLog log;
  const grpc::ServerContext context;
  const size_t before = LatestProblems().size();
  for (int k = 0; k < 3; ++k) {
    log.Ended("Sessions.Apply", UnknownSession(), {"alice", "id"}, context);
    log.Ended("Recurrent.Infer", LimitError("outputs", "too large", {.limit = 8, .value = 16}), {}, context);
    log.Ended("Recurrent.Infer", absl::UnauthenticatedError("x"), {}, context);
    log.Ended("Models.Load", absl::PermissionDeniedError("x"), {}, context);
    log.Ended("Models.Load", FieldError("name", "is none"), {}, context);
  }
  const std::vector<LoggedProblem> problems = LatestProblems();
  ASSERT_EQ(problems.size(), before + 5);
  EXPECT_EQ(problems[0].text, "Models.Load refused: INVALID_ARGUMENT: is none");
  EXPECT_EQ(problems[4].level, "warning");
}

TEST(CallLog, WhatIsRememberedOfAMessageIsBounded) {
  CallLog log;
  const grpc::ServerContext context;
  log.Ended("Models.Load", absl::NotFoundError(std::string(100'000, 'x')), {}, context);
  EXPECT_LT(LatestProblems()[0].text.size(), 1100u);
}

}  // namespace
}  // namespace rnnserve
