// SPDX-License-Identifier: Apache-2.0
// Whole runs against a fake server: short ones, by number of answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

#include "tests/client/rnnctl/run_rnnctl.h"

namespace rnnserve::rnnctl {
namespace {

using testing::HasSubstr;

class BenchCommandTest : public testing::Test {
 protected:
  BenchCommandTest() {
    server_.on_infer = [this](const v1::InferRequest& request, v1::InferResponse& reply) {
      const std::lock_guard lock(mutex_);
      ++calls_;
      (request.has_operator_() ? inline_ : request.has_model() ? by_name_ : by_fingerprint_) += 1;
      lengths_.insert(request.inputs(request.inputs_size() - 1).shape(0));
      v1::Tensor& y = *reply.add_outputs();
      y.set_name("Y");
      y.set_data_type(v1::FLOAT);
      y.add_shape(1);
      const float value = wrong_answers_ ? static_cast<float>(calls_) : 0.25f;
      y.set_raw(&value, sizeof(value));
      reply.set_fingerprint(std::string(64, 'a'));
      reply.mutable_queue_time()->set_nanos(1'000'000);
      reply.mutable_compute_time()->set_nanos(2'000'000);
      reply.set_largest_batch(5);
      return calls_ == 1 ? first_answer_ : answer_;
    };
  }

  Outcome Bench(std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "--server=" + server_.address(), "--warm-up=0s"});
    return RunRnnctl(words);
  }

  FakeServer server_;
  std::mutex mutex_;
  int calls_ = 0, inline_ = 0, by_name_ = 0, by_fingerprint_ = 0;
  std::set<int64_t> lengths_;
  bool wrong_answers_ = false;
  FakeStatus first_answer_, answer_;
  const TemporaryFolder folder_;
};

TEST_F(BenchCommandTest, SendsWeightsOnceAndReportsWhatRepliesTell) {
  const Outcome outcome = Bench({"--hidden=3", "--requests=50", "--concurrency=4", "--check=exact"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_EQ(inline_, 1);
  EXPECT_GE(by_fingerprint_, 50);
  EXPECT_THAT(outcome.out, HasSubstr("LSTM hidden 3 input 3, steps 32, rows 1"));
  EXPECT_THAT(outcome.out, HasSubstr("4 callers  1.000"));
  EXPECT_THAT(outcome.out, HasSubstr("50 same bits"));
  EXPECT_EQ(outcome.err, "");  // no progress line: standard error is no terminal
}

TEST_F(BenchCommandTest, SpreadsCallsOverSeveralServers) {
  FakeServer other;
  std::atomic<int> there = 0;
  other.on_infer = [&](const v1::InferRequest& request, v1::InferResponse& reply) {
    ++there;
    return server_.on_infer(request, reply);
  };
  const Outcome outcome = RunRnnctl({"bench", "--server=" + server_.address() + "," + other.address(), "--warm-up=0s",
                                     "--hidden=3", "--requests=100", "--concurrency=1"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_EQ(inline_, 2) << "the weights go to each";
  EXPECT_GE(there, 50);
  EXPECT_LE(there, 54);
}

TEST_F(BenchCommandTest, SendsWeightsEveryTimeIfAsked) {
  const Outcome outcome = Bench({"--hidden=3", "--requests=20", "--inline"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_GE(inline_, 21);
  EXPECT_EQ(by_fingerprint_, 0);
}

TEST_F(BenchCommandTest, AsksForTheSignatureOfAModel) {
  server_.on_get = [](const v1::GetModelRequest& request, v1::GetModelResponse& reply) {
    EXPECT_EQ(request.model().name(), "vad");
    v1::ModelInfo& info = *reply.mutable_model();
    const auto add = [&](const char* name, v1::DataType type, std::vector<std::string> shape, bool optional) {
      v1::TensorSpec& spec = *info.add_inputs();
      spec.set_name(name);
      spec.set_data_type(type);
      for (const std::string& dim : shape) spec.add_shape(dim);
      spec.set_optional(optional);
    };
    add("initial_h", v1::FLOAT, {"1", "N", "7"}, true);
    add("sequence_lens", v1::INT32, {"N"}, false);
    add("X", v1::FLOAT, {"T", "N", "5"}, false);
    return FakeStatus{};
  };
  const Outcome outcome = Bench({"--model=vad:2", "--steps=4:6", "--requests=200"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_GE(by_name_, 200);
  EXPECT_EQ(inline_ + by_fingerprint_, 0);
  EXPECT_EQ(lengths_, (std::set<int64_t>{4, 5, 6}));
}

TEST_F(BenchCommandTest, MixesFromAFile) {
  const std::string mix =
      folder_.Write("mix.json", R"([{"op": "GRU", "hidden": 2, "steps": 3}, {"op": "RNN", "hidden": 2, "steps": 5}])");
  const Outcome outcome = Bench({"--mix", mix, "--requests=100", "--json"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_EQ(inline_, 2);
  EXPECT_EQ(lengths_, (std::set<int64_t>{3, 5}));
  EXPECT_THAT(outcome.out, HasSubstr("\"calls\": 100,"));
  EXPECT_THAT(outcome.out, HasSubstr("\"largest_batch\": 5"));
}

TEST_F(BenchCommandTest, OpenLoopMeasuresEachRate) {
  const Outcome outcome = Bench({"--hidden=3", "--rate=2000,4000", "--requests=40", "--csv"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n0,2000,requests"));
  EXPECT_THAT(outcome.out, HasSubstr("\n0,4000,requests"));
}

TEST_F(BenchCommandTest, RefusedCallsAreCounted) {
  answer_ = {8, "the queue is full"};
  const Outcome outcome = Bench({"--hidden=3", "--requests=30"});
  EXPECT_EQ(outcome.code, kRefused);  // not one call ended well
  EXPECT_THAT(outcome.out, HasSubstr("30 calls ended with RESOURCE_EXHAUSTED, the first: the queue is full"));
  EXPECT_THAT(outcome.err, HasSubstr("no call ended well"));
}

TEST_F(BenchCommandTest, NoCallAtAllIsAnError) {
  const Outcome outcome = Bench({"--hidden=3", "--rate=0.0001", "--duration=10ms"});
  EXPECT_EQ(outcome.code, kRefused);
  EXPECT_THAT(outcome.err, HasSubstr("no call was due"));
}

TEST_F(BenchCommandTest, ARefusedOperatorIsToldBeforeAnyLoad) {
  first_answer_ = {3, "X has 4 columns", {FieldDetail("inputs[X]", "4")}};
  const Outcome outcome = Bench({"--hidden=3", "--requests=30"});
  EXPECT_EQ(outcome.code, kRefused);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("field: inputs[X]"));
}

TEST_F(BenchCommandTest, WrongAnswersEndInAnError) {
  wrong_answers_ = true;
  const Outcome outcome = Bench({"--hidden=3", "--requests=30", "--check=1e-5"});
  EXPECT_EQ(outcome.code, kRefused);
  EXPECT_THAT(outcome.out, HasSubstr("WRONG"));
  EXPECT_THAT(outcome.err, HasSubstr("answers differ"));
}

TEST_F(BenchCommandTest, EchoSendsNothingButTheLoad) {
  const Outcome outcome = Bench({"--echo", "--hidden=3", "--requests=20"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_EQ(inline_, 0);
  EXPECT_THAT(outcome.out, HasSubstr("-"));
}

TEST_F(BenchCommandTest, NoServerIsToldAsElsewhere) {
  for (const char* echo : {"--echo", "--steps=1"}) {
    const Outcome outcome = RunRnnctl({"bench", "--server=unix:/nowhere/socket", echo, "--requests=1"});
    EXPECT_EQ(outcome.code, kCannotConnect) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace rnnserve::rnnctl
