// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/requests.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <set>

#include "client/rnnctl/bench/check.h"
#include "client/rnnctl/bench/reply.h"
#include "client/rnnctl/bench/timer.h"
#include "rnnserve/v1/recurrent.pb.h"

namespace rnnserve::rnnctl::bench {
namespace {

using testing::ElementsAre;

TEST(SpreadStepsTest, GoesFromTheShortestToTheLongest) {
  EXPECT_THAT(SpreadSteps(1, 400, 5), ElementsAre(1, 100, 200, 300, 400));
  EXPECT_THAT(SpreadSteps(3, 5, 64), ElementsAre(3, 4, 5));
  EXPECT_THAT(SpreadSteps(7, 7, 64), ElementsAre(7));
  EXPECT_THAT(SpreadSteps(1, 400, 1), ElementsAre(400));
}

TEST(RequestPickerTest, KeepsTheWeights) {
  RequestPicker picker({{3, 0, 2}, {1, 2, 5}}, 1);
  std::map<size_t, int> drawn;
  constexpr int kDraws = 40000;
  for (int k = 0; k < kDraws; ++k) ++drawn[picker.Next()];
  ASSERT_EQ(drawn.size(), 7u);
  for (const auto& [request, count] : drawn) {
    const double share = request < 2 ? 0.75 / 2 : 0.25 / 5;
    EXPECT_NEAR(static_cast<double>(count) / kDraws, share, 0.015) << request;
  }
}

// --echo prepares without a server.
std::vector<v1::InferRequest> Prepared(const Plan& plan) {
  const absl::StatusOr<Requests> requests = PrepareRequests(plan, nullptr);
  EXPECT_TRUE(requests.ok()) << requests.status();
  std::vector<v1::InferRequest> parsed;
  for (const std::string& body : requests->bodies) {
    parsed.emplace_back();
    EXPECT_TRUE(parsed.back().ParseFromString(body));
  }
  return parsed;
}

TEST(PrepareRequestsTest, EachHasAnotherContent) {
  Plan plan;
  plan.mix = {{.hidden = 3, .input = 5, .rows = 2, .min_steps = 7, .max_steps = 7}};
  std::set<std::string> contents;
  for (const v1::InferRequest& request : Prepared(plan)) {
    ASSERT_EQ(request.inputs_size(), 1);
    EXPECT_EQ(request.fingerprint().size(), 64u);
    EXPECT_THAT(request.inputs(0).shape(), ElementsAre(7, 2, 5));
    EXPECT_EQ(request.inputs(0).raw().size(), 7u * 2 * 5 * 4);
    contents.insert(request.inputs(0).raw());
  }
  EXPECT_EQ(contents.size(), 8u);
}

TEST(PrepareRequestsTest, ARangeHasAllItsLengths) {
  Plan plan;
  plan.mix = {{.min_steps = 2, .max_steps = 9}};
  std::multiset<int64_t> lengths;
  for (const v1::InferRequest& request : Prepared(plan)) lengths.insert(request.inputs(0).shape(0));
  EXPECT_THAT(lengths, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(PrepareRequestsTest, CastsData) {
  Plan plan;
  plan.mix = {{.input = 5}};
  plan.cast = "bfloat16";
  const v1::InferRequest request = Prepared(plan)[0];
  EXPECT_EQ(request.inputs(0).data_type(), v1::BFLOAT16);
  EXPECT_EQ(request.inputs(0).raw().size(), 32u * 5 * 2);
}

TEST(PrepareRequestsTest, RefusesWhatDoesNotFitIntoMemory) {
  Plan plan;
  plan.mix = {{.input = kMaxSize, .rows = kMaxSize, .min_steps = kMaxSteps, .max_steps = kMaxSteps}};
  EXPECT_TRUE(IsUsageError(PrepareRequests(plan, nullptr).status()));
  plan.mix = {{.hidden = kMaxSize}};
  EXPECT_TRUE(IsUsageError(PrepareRequests(plan, nullptr).status()));
}

v1::InferResponse Reply(float value) {
  v1::InferResponse reply;
  v1::Tensor& y = *reply.add_outputs();
  y.set_name("Y");
  y.set_data_type(v1::FLOAT);
  y.add_shape(1);
  y.set_raw(&value, sizeof(value));
  reply.set_engine("cpu");
  reply.mutable_queue_time()->set_seconds(2);
  reply.mutable_queue_time()->set_nanos(5);
  reply.mutable_compute_time()->set_nanos(7);
  reply.set_largest_batch(9);
  return reply;
}

bool Read(const std::string& bytes, Answer& answer) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), 3);
  return ReadTimes(stream, answer);
}

TEST(ReplyTest, ReadsTimesAndBatch) {
  Answer answer;
  ASSERT_TRUE(Read(Reply(1).SerializeAsString(), answer));
  EXPECT_TRUE(answer.has_server_times);
  EXPECT_EQ(answer.queue, std::chrono::nanoseconds(2'000'000'005));
  EXPECT_EQ(answer.compute, std::chrono::nanoseconds(7));
  EXPECT_EQ(answer.largest_batch, 9);
}

TEST(ReplyTest, AnswersWithoutTimesAreReplies) {
  Answer answer;
  EXPECT_TRUE(Read("", answer));
  EXPECT_FALSE(answer.has_server_times);
}

TEST(ReplyTest, EveryTruncationIsNoticedOrReadAsShorter) {
  const std::string bytes = Reply(1).SerializeAsString();
  v1::InferResponse oracle;
  for (size_t length = 0; length < bytes.size(); ++length) {
    Answer answer;
    const std::string cut = bytes.substr(0, length);
    EXPECT_EQ(Read(cut, answer), oracle.ParseFromString(cut)) << length;
  }
}

TEST(ReplyTest, AbsurdDurationsAreRefused) {
  v1::InferResponse reply = Reply(1);
  reply.mutable_queue_time()->set_seconds(INT64_MAX);
  Answer answer;
  EXPECT_FALSE(Read(reply.SerializeAsString(), answer));
  reply = Reply(1);
  reply.mutable_compute_time()->set_nanos(-1);
  EXPECT_FALSE(Read(reply.SerializeAsString(), answer));
}

TEST(AnswerCheckTest, ComparesWithTheFirstOfTheSameRequest) {
  AnswerCheck check(1e-5);
  EXPECT_EQ(check.Check(0, Reply(1).SerializeAsString()), Match::kSame);
  EXPECT_EQ(check.Check(1, Reply(5).SerializeAsString()), Match::kSame);
  EXPECT_EQ(check.Check(0, Reply(1).SerializeAsString()), Match::kSame);
  EXPECT_EQ(check.Check(0, Reply(1.000005f).SerializeAsString()), Match::kClose);
  EXPECT_EQ(check.Check(0, Reply(1.0001f).SerializeAsString()), Match::kWrong);
  EXPECT_EQ(check.Check(1, Reply(1).SerializeAsString()), Match::kWrong);
  EXPECT_EQ(check.Check(0, "\xff"), Match::kWrong);
  EXPECT_EQ(check.Check(0, ""), Match::kWrong);
}

TEST(AnswerCheckTest, ExactMeansBits) {
  AnswerCheck check(0);
  EXPECT_EQ(check.Check(0, Reply(0.0f).SerializeAsString()), Match::kSame);
  EXPECT_EQ(check.Check(0, Reply(-0.0f).SerializeAsString()), Match::kWrong);
}

TEST(AnswerCheckTest, NaNIsCloseToNaNOnly) {
  AnswerCheck check(1e-5);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(check.Check(0, Reply(nan).SerializeAsString()), Match::kSame);
  EXPECT_EQ(check.Check(0, Reply(-nan).SerializeAsString()), Match::kClose);
  EXPECT_EQ(check.Check(0, Reply(1).SerializeAsString()), Match::kWrong);
}

TEST(PreciseTimerTest, FiresAtOnceForAPastMomentAndAgain) {
  std::promise<void> first, second;
  int fired = 0;
  const auto timer = PreciseTimer::Create([&] { (++fired == 1 ? first : second).set_value(); });
  ASSERT_TRUE(timer.ok()) << timer.status();
  (*timer)->Arm(std::chrono::nanoseconds(0));
  first.get_future().wait();
  (*timer)->Arm(std::chrono::steady_clock::now().time_since_epoch() + std::chrono::microseconds(10));
  second.get_future().wait();
}

}  // namespace
}  // namespace rnnserve::rnnctl::bench
