// SPDX-License-Identifier: Apache-2.0
// Sequences on sessions whose clock stands still until it is moved, and whose engine adds: Y is the sum of all X.
#include "server/api/kserve/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "server/batching/cellular_scheduler.h"
#include "server/sessions/contract/memory_sessions.h"
#include "tests/server/core/fake_engine.h"

namespace rnnserve::kserve {
namespace {

using testing::HasSubstr;

class TestClock final : public MonotonicClock {
 public:
  absl::Duration Now() const override { return now_; }
  void Move(absl::Duration by) { now_ += by; }

 private:
  absl::Duration now_ = absl::Seconds(1000);
};

struct Answer {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;
  std::string text;
  float y = 0;
  bool repeated = false;
};

// How a request differs from one without a flag, of tenant "" and of no id.
struct Step {
  bool start = false;
  bool end = false;
  std::string request_id = {};
  std::string tenant = {};
};

class SequencesTest : public testing::Test {
 protected:
  SequencesTest() { Load("m"); }

  void Load(const std::string& name) {
    OperatorDef rnn;
    rnn.op_type = "RNN";
    rnn.version = 14;
    rnn.attributes["hidden_size"] = int64_t{1};
    const float one = 1;
    const TensorView weight = {DataType::kFloat, {1, 1, 1}, std::as_bytes(std::span(&one, 1))};
    const std::vector<NamedTensor> weights = {{"W", weight}, {"R", weight}};
    model_ = store_.LoadInline({.name = name}, rnn, weights).value();
  }

  Answer Send(const std::string& id, float x, Step step = {}) {
    InferRequest request;
    request.call.inputs = {{"X", {DataType::kFloat, {1, 1, 1}, std::as_bytes(std::span(&x, 1))}}};
    request.sequence = SequenceStep{id, step.start, step.end};
    std::promise<absl::StatusOr<SequenceReply>> promise;
    SequenceCaller caller;
    caller.tenant = step.tenant;
    caller.request_id = step.request_id;
    sequences_.Run(std::move(request), model_, std::move(caller),
                   [&](absl::StatusOr<SequenceReply> reply) { promise.set_value(std::move(reply)); });
    const absl::StatusOr<SequenceReply> reply = promise.get_future().get();
    if (!reply.ok()) {
      return {reply.status().code(), ReasonOf(reply.status()).value_or(""), std::string(reply.status().message()), 0,
              false};
    }
    Answer answer;
    answer.repeated = reply->repeated;
    std::memcpy(&answer.y, reply->result->outputs.at(0).bytes.data(), sizeof(float));
    return answer;
  }

  // What it does after an answer is done, too.
  void StopWorker() { scheduler_.reset(); }
  void TearDown() override { StopWorker(); }

  absl::Status in_service_;
  FakeEngine engine_{"fake", {.in_service = [this] { return in_service_; }}};
  ModelStore store_{{}};
  ProgramCache programs_{1 << 20};
  TestClock clock_;
  MemorySessions sessions_{{}, &clock_};
  std::unique_ptr<CellularScheduler> scheduler_ =
      std::make_unique<CellularScheduler>(BatchQueue::Options{.workers = 1});
  Core core_{{}, {&engine_}, &store_, &programs_, scheduler_.get()};
  SessionCore session_core_{{}, &core_, &sessions_, &clock_};
  Sequences sequences_{&session_core_};
  LoadedModel model_;
};

void ExpectRefused(const Answer& answer, const std::string& reason, const std::string& text) {
  EXPECT_EQ(answer.code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(answer.reason, reason);
  EXPECT_THAT(answer.text, HasSubstr("must specify the START flag"));
  EXPECT_THAT(answer.text, HasSubstr(text));
}

TEST_F(SequencesTest, GoOnFromTheirStart) {
  EXPECT_EQ(Send("7", 1, {.start = true}).y, 1);
  EXPECT_EQ(Send("8", 10, {.start = true}).y, 10);
  EXPECT_EQ(Send("7", 2).y, 3);
  EXPECT_EQ(Send("8", 20).y, 30);
  EXPECT_EQ(Send("7", 5, {.start = true}).y, 5) << "a live one begins anew";
  StopWorker();
  EXPECT_EQ(sessions_.live(), 2) << "and the one that it replaced is closed";
}

TEST_F(SequencesTest, UnknownAndEndedSayWhich) {
  ExpectRefused(Send("7", 1), "SEQUENCE_UNKNOWN", "no such sequence");
  Send("7", 1, {.start = true});
  EXPECT_EQ(Send("7", 2, {.end = true}).y, 3);
  ExpectRefused(Send("7", 3), "SEQUENCE_ENDED", "has ended");
  StopWorker();
  EXPECT_EQ(sessions_.live(), 0);
}

TEST_F(SequencesTest, IdleOnesExpire) {
  Send("7", 1, {.start = true});
  clock_.Move(absl::Minutes(9));
  EXPECT_EQ(Send("7", 2).y, 3);
  Send("8", 1, {.start = true});  // the only worker is done with 7
  for (int k = 0; k < 11 * 60; ++k) {
    clock_.Move(absl::Seconds(1));
    sessions_.Sweep();
  }
  ExpectRefused(Send("7", 3), "SEQUENCE_EXPIRED", "idle for too long");
  EXPECT_EQ(Send("7", 4, {.start = true}).y, 4);
}

TEST_F(SequencesTest, ThoseOfAnEngineOutOfServiceAreLost) {
  Send("7", 1, {.start = true});
  in_service_ = absl::DataLossError("out of service");
  ExpectRefused(Send("7", 2), "SEQUENCE_LOST", "is lost");
}

TEST_F(SequencesTest, ARequestSentAgainIsAppliedOnce) {
  EXPECT_EQ(Send("7", 1, {.start = true, .request_id = "a"}).y, 1);
  EXPECT_EQ(Send("7", 1, {.start = true, .request_id = "a"}).y, 1);
  EXPECT_EQ(Send("7", 2, {.request_id = "b"}).y, 3);
  EXPECT_EQ(Send("7", 2, {.request_id = "b"}).y, 3);
  EXPECT_EQ(Send("7", 4, {.request_id = "b"}).y, 7) << "other tensors: a new request";
  EXPECT_EQ(Send("7", 8, {.end = true, .request_id = "c"}).y, 15);
  EXPECT_EQ(Send("7", 8, {.end = true, .request_id = "c"}).y, 15);
}

TEST_F(SequencesTest, NamesThatWouldJoinToOneStayApart) {
  Send("b/7", 1, {.start = true, .tenant = "a"});
  EXPECT_EQ(Send("b/7", 2, {.tenant = "a"}).y, 3);
  ExpectRefused(Send("7", 1, {.tenant = "a/m/b"}), "SEQUENCE_UNKNOWN", "no such");
  Load("b");
  Send("m/7", 1, {.start = true, .tenant = "a"});
  Load("m");
  EXPECT_EQ(Send("7", 50, {.start = true, .tenant = "a/b"}).y, 50);
  Load("b");
  EXPECT_EQ(Send("m/7", 2, {.tenant = "a"}).y, 3) << "another tenant's start has left it alone";
}

TEST_F(SequencesTest, WhatIsKeptOfEndedOnesIsBounded) {
  constexpr int kSequences = 4100;
  for (int k = 0; k < kSequences; ++k) Send(absl::StrCat(k), 1, {.start = true, .end = true, .request_id = "once"});
  EXPECT_EQ(Send("0", 1).reason, "SEQUENCE_UNKNOWN") << "the oldest is forgotten";
  EXPECT_EQ(Send(absl::StrCat(kSequences - 1), 1).reason, "SEQUENCE_ENDED");
  EXPECT_TRUE(Send(absl::StrCat(kSequences - 1), 1, {.end = true, .request_id = "once"}).repeated);
  StopWorker();
  EXPECT_EQ(sessions_.live(), 0);
}

}  // namespace
}  // namespace rnnserve::kserve
