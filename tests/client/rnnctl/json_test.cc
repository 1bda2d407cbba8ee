// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/json.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "engine/float16.h"
#include "rnnserve/v1/models.pb.h"
#include "rnnserve/v1/recurrent.pb.h"

namespace rnnserve::rnnctl {
namespace {

using client::InferResult;
using client::MakeTensor;
using client::ModelInfo;
using client::ModelList;
using client::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Message>
Message Parse(const std::string& json) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << json;
  return message;
}

Tensor Halves(const std::string& name, DataType type, uint16_t bits) {
  return {name, type, {1}, std::string(reinterpret_cast<const char*>(&bits), sizeof(bits))};
}

TEST(JsonTest, OutputsAreTypedLists) {
  InferResult result;
  result.outputs = {
      MakeTensor("f", {1}, std::vector<float>{0.1f}),       MakeTensor("d", {1}, std::vector<double>{0.1}),
      MakeTensor("i", {1}, std::vector<int32_t>{-7}),       MakeTensor("l", {1}, std::vector<int64_t>{INT64_MAX}),
      Halves("h", DataType::kFloat16, HalfFromFloat(1.5f)), Halves("b", DataType::kBFloat16, BFloat16FromFloat(-3))};
  result.queue_time = std::chrono::nanoseconds(1'000'000'005);
  const auto reply = Parse<v1::InferResponse>(ToJson(result));
  EXPECT_THAT(reply.outputs(0).float_data(), ElementsAre(0.1f));
  EXPECT_THAT(reply.outputs(1).double_data(), ElementsAre(0.1));
  EXPECT_THAT(reply.outputs(2).int32_data(), ElementsAre(-7));
  EXPECT_THAT(reply.outputs(3).int64_data(), ElementsAre(INT64_MAX));
  EXPECT_THAT(reply.outputs(4).float_data(), ElementsAre(1.5f));
  EXPECT_EQ(reply.outputs(4).data_type(), v1::FLOAT16);
  EXPECT_THAT(reply.outputs(5).float_data(), ElementsAre(-3));
  EXPECT_EQ(reply.queue_time().seconds(), 1);
  EXPECT_EQ(reply.queue_time().nanos(), 5);
}

TEST(JsonTest, ModelsKeepOperatorAndOptions) {
  ModelInfo model;
  model.name = "vad";
  model.op.op_type = "RNN";
  model.op.version = 14;
  model.op.attributes["activations"] = std::vector<std::string>{"Relu"};
  model.options.deterministic = true;
  model.inputs = {{"X", DataType::kFloat16, {"T", "N", "3"}, false}};
  const auto info = Parse<v1::ModelInfo>(ToJson(model));
  EXPECT_THAT(info.operator_().attributes().at("activations").strings().values(), ElementsAre("Relu"));
  EXPECT_TRUE(info.options().deterministic());
  EXPECT_EQ(info.inputs(0).data_type(), v1::FLOAT16);
  const auto list = Parse<v1::ListModelsResponse>(ToJson(ModelList{{model, model}, {{"p", "why"}}}));
  EXPECT_EQ(list.models_size(), 2);
  EXPECT_EQ(list.failures(0).reason(), "why");
}

TEST(JsonTest, SaysWhatIsWrongInARequest) {
  v1::InferRequest request;
  EXPECT_TRUE(request.ParseFromString(ParseInferJson(R"({"fingerprint": "ab"})").value()));
  EXPECT_EQ(request.fingerprint(), "ab");
  EXPECT_THAT(std::string(ParseInferJson(R"({"inptus": []})").status().message()), HasSubstr("inptus"));
  EXPECT_FALSE(ParseInferJson("{").ok());
  EXPECT_FALSE(ParseInferJson("").ok());
}

}  // namespace
}  // namespace rnnserve::rnnctl
