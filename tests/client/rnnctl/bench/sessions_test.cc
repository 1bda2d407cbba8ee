// SPDX-License-Identifier: Apache-2.0
// What `rnnctl bench --sessions` writes, reads, asks for and searches. Whole runs:
// tests/integration/test_session_bench.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "client/rnnctl/bench/plan.h"
#include "client/rnnctl/bench/report.h"
#include "client/rnnctl/bench/sessions/find.h"
#include "client/rnnctl/bench/sessions/messages.h"
#include "rnnserve/v1/recurrent.pb.h"
#include "tests/client/rnnctl/run_rnnctl.h"

namespace rnnserve::rnnctl::bench {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(SessionMessagesTest, OperationsAreWhatTheServerReads) {
  const std::vector<float> x = {1, 2};
  const client::Tensor tensor = client::MakeTensor("X", {1, 1, 2}, std::span<const float>(x));
  std::string message;
  AppendOperation({OperationKind::kChunk, 1234567}, "key", 300, ChunkBody({tensor}), message);
  AppendOperation(
      {OperationKind::kOpen, 0}, "", 0,
      OpenBody(client::Fingerprint{"abc"}, 2, {.outputs = {"Y_h"}, .engine = "cpu"}, 8, {}, client::Durability::kSync),
      message);
  AppendOperation({OperationKind::kClose, 3}, "key", 301, CloseBody(), message);
  v1::StreamRequest request;
  ASSERT_TRUE(request.ParseFromString(message));
  ASSERT_EQ(request.operations_size(), 3);
  EXPECT_EQ(request.operations(0).request_id(), "c1234567");
  EXPECT_EQ(request.operations(0).session(), "key");
  EXPECT_EQ(request.operations(0).number(), 300u);
  ASSERT_EQ(request.operations(0).chunk().inputs_size(), 1);
  EXPECT_EQ(request.operations(0).chunk().inputs(0).raw().size(), 8u);
  const v1::OpenRequest& open = request.operations(1).open();
  EXPECT_FALSE(request.operations(1).has_number());
  EXPECT_EQ(open.fingerprint(), "abc");
  EXPECT_EQ(open.rows(), 2);
  EXPECT_EQ(open.outputs(0), "Y_h");
  EXPECT_EQ(open.engine(), "cpu");
  EXPECT_EQ(open.window_operations(), 8);
  EXPECT_EQ(open.durability(), v1::OpenRequest::SYNC);
  EXPECT_FALSE(open.has_window_bytes());
  EXPECT_TRUE(request.operations(2).has_close());
}

v1::StreamResponse TwoReplies() {
  v1::StreamResponse response;
  v1::OperationReply& chunk = *response.add_replies();
  chunk.set_request_id("c42");
  chunk.set_session("key");
  chunk.mutable_status();
  chunk.mutable_queue_time()->set_nanos(5000);
  chunk.mutable_compute_time()->set_seconds(2);
  v1::Tensor& y = *chunk.add_outputs();
  y.set_raw(std::string(300, 'y'));
  v1::OperationReply& refused = *response.add_replies();
  refused.set_request_id("o7");
  refused.mutable_status()->set_code(8);
  refused.mutable_status()->set_message("full");
  response.mutable_drain();
  return response;
}

TEST(SessionMessagesTest, RepliesAreRead) {
  std::vector<OperationRead> reads;
  const std::string message = TwoReplies().SerializeAsString();
  ASSERT_TRUE(ReadReplies(message, [&](const OperationRead& read) { reads.push_back(read); }));
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].id.kind, OperationKind::kChunk);
  EXPECT_EQ(reads[0].id.slot, 42u);
  EXPECT_EQ(reads[0].session, "key");
  EXPECT_EQ(reads[0].answer.code, 0);
  EXPECT_EQ(reads[0].answer.queue, std::chrono::microseconds(5));
  EXPECT_EQ(reads[0].answer.compute, std::chrono::seconds(2));
  EXPECT_TRUE(reads[0].answer.has_server_times);
  EXPECT_EQ(reads[1].id.kind, OperationKind::kOpen);
  EXPECT_EQ(reads[1].answer.code, 8);
  EXPECT_EQ(reads[1].answer.message, "full");
}

TEST(SessionMessagesTest, NoPrefixOfAMessageIsTakenForMore) {
  const std::string message = TwoReplies().SerializeAsString();
  for (size_t size = 0; size < message.size(); ++size) {
    size_t replies = 0;
    ReadReplies(message.substr(0, size), [&](const OperationRead&) { ++replies; });
    EXPECT_LE(replies, 2u);
  }
  EXPECT_FALSE(ReadReplies("\x0a\x7fshort", [](const OperationRead&) {}));
  EXPECT_FALSE(ReadReplies(std::string("\x0a\x02\x0a\x00", 4), [](const OperationRead&) {}));  // no request id
}

int64_t Find(int64_t start, int64_t truth, std::vector<int64_t>* tried = nullptr) {
  return FindMost(start, 1 << 17, [&](int64_t sessions) -> std::optional<bool> {
    if (tried != nullptr) tried->push_back(sessions);
    return sessions <= truth;
  });
}

TEST(FindTest, ComesWithinATwentiethWhereverItStarts) {
  for (int64_t truth : {1, 2, 7, 100, 1234, 90000}) {
    for (int64_t start : {1, 64, 5000}) {
      const int64_t found = Find(start, truth);
      EXPECT_LE(found, truth);
      EXPECT_GE(static_cast<double>(found), static_cast<double>(truth) * 0.95 - 1) << truth << " from " << start;
    }
  }
  EXPECT_EQ(Find(64, 0), 0);
  EXPECT_EQ(Find(64, 1 << 20), 1 << 17);
}

TEST(FindTest, WhatFailsOnceIsTriedAgain) {
  std::vector<int64_t> tried;
  std::set<int64_t> seen;
  const int64_t found = FindMost(10, 10, [&](int64_t sessions) -> std::optional<bool> {
    tried.push_back(sessions);
    return !seen.insert(sessions).second;
  });
  EXPECT_EQ(found, 10);
  EXPECT_THAT(tried, testing::ElementsAre(10, 10));
}

TEST(FindTest, AnInterruptionKeepsWhatIsKnown) {
  int calls = 0;
  const int64_t found = FindMost(8, 1000, [&](int64_t) -> std::optional<bool> {
    if (++calls == 3) return std::nullopt;
    return true;
  });
  EXPECT_EQ(found, 16);
  EXPECT_EQ(calls, 3);
}

TEST(FindTest, HeldMeansInTimeAndWhole) {
  Level level;
  EXPECT_FALSE(IsHeld(level, milliseconds(20)));
  Answer answer;
  for (int k = 0; k < 1000; ++k) level.tally.Record(answer, milliseconds(k < 980 ? 5 : 19), Time(0));
  EXPECT_TRUE(IsHeld(level, milliseconds(20)));
  EXPECT_FALSE(IsHeld(level, milliseconds(18)));
  level.unsent = 11;
  EXPECT_FALSE(IsHeld(level, milliseconds(20)));
  level.unsent = 10;
  answer.code = 8;
  EXPECT_TRUE(IsHeld(level, milliseconds(20)));
  level.tally.Record(answer, milliseconds(1), Time(0));
  EXPECT_FALSE(IsHeld(level, milliseconds(20)));
}

std::string SessionsUsageOf(std::vector<std::string> words) {
  words.insert(words.begin(), {"bench", "--server=127.0.0.1:1"});
  const Outcome outcome = RunRnnctl(words);
  EXPECT_EQ(outcome.code, kUsage) << outcome.err;
  return outcome.err;
}

TEST(SessionPlanTest, FlagsThatDoNotGoTogetherAreRefused) {
  for (const char* flag : {"--chunk=2", "--cadence=32ms", "--arrivals=random", "--operations=2", "--streams=2",
                           "--life=3", "--keep=3", "--find=20ms", "--keep-bytes=9", "--durability=sync"}) {
    EXPECT_THAT(SessionsUsageOf({flag}), HasSubstr("belongs to --sessions")) << flag;
  }
  for (const char* flag : {"--concurrency=2", "--rate=2", "--mix=m.json", "--steps=2", "--inline"}) {
    EXPECT_THAT(SessionsUsageOf({"--sessions=2", flag}), HasSubstr("and --sessions exclude each other")) << flag;
  }
  EXPECT_THAT(SessionsUsageOf({"--sessions=2", "--find=20ms"}), HasSubstr("--find belongs to --cadence"));
  EXPECT_THAT(SessionsUsageOf({"--sessions=2", "--arrivals=random"}), HasSubstr("--arrivals belongs to --cadence"));
  EXPECT_THAT(SessionsUsageOf({"--sessions=2,3", "--cadence=1s", "--find=20ms"}), HasSubstr("starts from one number"));
}

TEST(SessionPlanTest, WrongValuesAreRefused) {
  EXPECT_THAT(SessionsUsageOf({"--sessions=1.5"}), HasSubstr("whole number of sessions"));
  EXPECT_THAT(SessionsUsageOf({"--sessions=2000000"}), HasSubstr("up to 1048576"));
  EXPECT_THAT(SessionsUsageOf({"--sessions=2", "--durability=soon"}), HasSubstr("expected local, interval or sync"));
  EXPECT_THAT(SessionsUsageOf({"--sessions=2", "--cadence=0s"}), HasSubstr("--cadence=0s"));
  EXPECT_THAT(SessionsUsageOf({"--sessions=2", "--cadence=1s", "--arrivals=often"}),
              HasSubstr("expected regular or random"));
  EXPECT_THAT(SessionsUsageOf({"--sessions=2", "--chunk=0"}), HasSubstr("--chunk=0"));
  EXPECT_THAT(SessionsUsageOf({"--sessions=2", "--operations=0"}), HasSubstr("--operations"));
}

Report SessionReport() {
  Level level;
  level.load.concurrency = 64;
  level.load.sessions = true;
  level.load.cadence = milliseconds(32);
  level.ended = Ended::kDuration;
  level.tally.span = std::chrono::seconds(1);
  level.opened.Add(milliseconds(3));
  Answer answer;
  answer.steps = 4;
  for (int k = 0; k < 100; ++k) level.tally.Record(answer, milliseconds(8), Time(0));
  return {"what", {level}, HeldSessions{640, milliseconds(20)}};
}

TEST(SessionReportTest, TellsStepsAndTheRealTimeFactor) {
  const std::string text = ShowReport(SessionReport(), false);
  EXPECT_THAT(text, HasSubstr("64 sessions"));
  EXPECT_THAT(text, HasSubstr("real-time factor"));
  EXPECT_THAT(text, HasSubstr("0.250"));
  EXPECT_THAT(text, HasSubstr("held 640 sessions at a p99 of at most 20.00 ms"));
  const std::string json = ReportJson(SessionReport());
  EXPECT_THAT(json, HasSubstr("\"steps_per_second\": 400.000"));
  EXPECT_THAT(json, HasSubstr("\"real_time_factor\": 0.250000"));
  EXPECT_THAT(json, HasSubstr("\"held_sessions\": 640"));
  EXPECT_THAT(json, HasSubstr("\"opened\": 1"));
  EXPECT_THAT(ReportCsv(SessionReport()), HasSubstr(",steps_per_second,real_time_factor,"));
}

}  // namespace
}  // namespace rnnserve::rnnctl::bench
