// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/bound_operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "tests/client/cpp/fake_server.h"

namespace rnnserve::client {
namespace {

using testing::ElementsAre;

// Says how each call named its target: "weights" (with the number of inputs) or the fingerprint.
class BoundOperatorTest : public testing::Test {
 protected:
  BoundOperatorTest() {
    server_.on_infer = [this](const v1::InferRequest& request, v1::InferResponse& reply) {
      const bool inline_call = request.has_operator_();
      calls_.push_back((inline_call ? "weights" : request.fingerprint()) + "+" + std::to_string(request.inputs_size()));
      if (!inline_call && request.fingerprint() != held_) {
        return FakeStatus{5, "not held", {ReasonDetail(missing_reason_)}};
      }
      if (refuse_weights_ && inline_call) return FakeStatus{3, "W is wrong", {FieldDetail("inputs[W]", "wrong")}};
      reply.set_fingerprint(held_);
      return FakeStatus{};
    };
    OperatorDef op;
    op.op_type = "RNN";
    op.opset = 14;
    const std::vector<float> one = {1};
    bound_ = std::make_unique<BoundOperator>(
        client_.get(), op, std::vector<Tensor>{MakeTensor("W", {1, 1, 1}, one), MakeTensor("R", {1, 1, 1}, one)});
  }

  FakeServer server_;
  std::string held_ = "fp1";
  std::string missing_reason_ = "FINGERPRINT_EVICTED";
  bool refuse_weights_ = false;
  std::vector<std::string> calls_;
  std::unique_ptr<Client> client_ = Client::Create(server_.address()).value();
  std::unique_ptr<BoundOperator> bound_;
  const std::vector<Tensor> data_ = {MakeTensor("X", {1, 1, 1}, std::vector<float>{2})};
};

TEST_F(BoundOperatorTest, SendsTheWeightsOnce) {
  for (int call = 0; call < 3; ++call) ASSERT_TRUE(bound_->Infer(data_).ok());
  EXPECT_THAT(calls_, ElementsAre("weights+3", "fp1+1", "fp1+1"));
}

TEST_F(BoundOperatorTest, SendsThemAgainWhenEvicted) {
  ASSERT_TRUE(bound_->Infer(data_).ok());
  held_ = "fp2";
  ASSERT_TRUE(bound_->Infer(data_).ok());
  ASSERT_TRUE(bound_->Infer(data_).ok());
  EXPECT_THAT(calls_, ElementsAre("weights+3", "fp1+1", "weights+3", "fp2+1"));
}

TEST_F(BoundOperatorTest, OtherRefusalsAreNotRepeated) {
  ASSERT_TRUE(bound_->Infer(data_).ok());
  held_ = "fp2";
  missing_reason_ = "MODEL_UNKNOWN";
  const absl::Status status = bound_->Infer(data_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), "MODEL_UNKNOWN");
  EXPECT_THAT(calls_, ElementsAre("weights+3", "fp1+1"));
}

TEST_F(BoundOperatorTest, ARefusalOfTheWeightsIsNotRemembered) {
  refuse_weights_ = true;
  EXPECT_EQ(FieldOf(bound_->Infer(data_).status()), "inputs[W]");
  refuse_weights_ = false;
  EXPECT_TRUE(bound_->Infer(data_).ok());
  EXPECT_THAT(calls_, ElementsAre("weights+3", "weights+3"));
}

}  // namespace
}  // namespace rnnserve::client
