// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/field_error.h"
#include "server/api/native/infer_codec.h"
#include "server/api/native/operator_codec.h"
#include "server/api/native/options_codec.h"
#include "server/rpc/wire_guard.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A request on an arena, with a target and one good input.
class CodecTest : public testing::Test {
 protected:
  CodecTest() {
    request_.set_fingerprint(std::string(64, '0'));
    tensor_.set_name("X");
    tensor_.set_data_type(v1::FLOAT);
  }

  void Shape(std::vector<int64_t> shape) {
    tensor_.clear_shape();
    tensor_.mutable_shape()->Add(shape.begin(), shape.end());
  }

  // The field path and text of the refusal.
  std::string Refusal() {
    const absl::StatusOr<InferCall> call = DecodeInfer(request_);
    if (call.ok()) return "accepted";
    EXPECT_EQ(call.status().code(), absl::StatusCode::kInvalidArgument);
    return FieldOf(call.status()).value_or("(no field)") + ": " + std::string(call.status().message());
  }

  template <typename T>
  std::vector<T> Elements() {
    const absl::StatusOr<InferCall> call = DecodeInfer(request_);
    EXPECT_TRUE(call.ok()) << call.status();
    if (!call.ok()) return {};
    const std::span<const std::byte> data = call->inputs[0].tensor.data;
    std::vector<T> elements(data.size() / sizeof(T));
    if (!data.empty()) std::memcpy(elements.data(), data.data(), data.size());
    return elements;
  }

  google::protobuf::Arena arena_;
  v1::InferRequest& request_ = *google::protobuf::Arena::CreateMessage<v1::InferRequest>(&arena_);
  v1::Tensor& tensor_ = *request_.add_inputs();
};

TEST_F(CodecTest, ViewsRawBytesWhereTheyAre) {
  Shape({2, 1});
  tensor_.set_raw(std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  EXPECT_THAT(Elements<float>(), ElementsAre(1, 2));
  const absl::StatusOr<InferCall> call = DecodeInfer(request_);
  EXPECT_EQ(static_cast<const void*>(call->inputs[0].tensor.data.data()),
            static_cast<const void*>(request_.inputs(0).raw().data()));
}

TEST_F(CodecTest, TakesTypedLists) {
  Shape({2});
  tensor_.mutable_float_data()->Add(1.5f);
  tensor_.mutable_float_data()->Add(-2.5f);
  EXPECT_THAT(Elements<float>(), ElementsAre(1.5f, -2.5f));
  tensor_.clear_float_data();
  tensor_.set_data_type(v1::DOUBLE);
  tensor_.add_double_data(0.1);
  tensor_.add_double_data(0.2);
  EXPECT_THAT(Elements<double>(), ElementsAre(0.1, 0.2));
  tensor_.clear_double_data();
  tensor_.set_data_type(v1::INT32);
  tensor_.add_int32_data(-3);
  tensor_.add_int32_data(4);
  EXPECT_THAT(Elements<int32_t>(), ElementsAre(-3, 4));
  tensor_.clear_int32_data();
  tensor_.set_data_type(v1::INT64);
  tensor_.add_int64_data(int64_t{1} << 40);
  tensor_.add_int64_data(-1);
  EXPECT_THAT(Elements<int64_t>(), ElementsAre(int64_t{1} << 40, -1));
}

TEST_F(CodecTest, Rounds16BitFloatsToNearestEven) {
  Shape({4});
  for (const float value : {1.0f, 1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f, 1e9f}) tensor_.add_float_data(value);
  tensor_.set_data_type(v1::FLOAT16);
  EXPECT_THAT(Elements<uint16_t>(), ElementsAre(0x3c00, 0x3c00, 0x3c02, 0x7c00));
  tensor_.set_data_type(v1::BFLOAT16);
  tensor_.set_float_data(1, 1.0f + 0x1p-8f);
  tensor_.set_float_data(2, 1.0f + 0x1.8p-7f);
  tensor_.set_float_data(3, -0.0f);
  EXPECT_THAT(Elements<uint16_t>(), ElementsAre(0x3f80, 0x3f80, 0x3f82, 0x8000));
}

TEST_F(CodecTest, ScalarsHaveOneElementAndEmptyTensorsNone) {
  Shape({});
  EXPECT_THAT(Refusal(), HasSubstr("inputs[X].raw: shape [] has 1 elements"));
  tensor_.add_float_data(3);
  EXPECT_THAT(Elements<float>(), ElementsAre(3));
  tensor_.clear_float_data();
  Shape({5, 0, 3});
  EXPECT_THAT(Elements<float>(), ElementsAre());
}

TEST_F(CodecTest, RefusesBothAndNeither) {
  Shape({1});
  EXPECT_THAT(Refusal(), HasSubstr("inputs[X].raw: shape [1] has 1 elements, but none came"));
  tensor_.set_raw("1234");
  tensor_.add_float_data(1);
  EXPECT_THAT(Refusal(), HasSubstr("inputs[X]: the elements come twice, in raw and float_data"));
  tensor_.clear_raw();
  tensor_.add_int64_data(1);
  EXPECT_THAT(Refusal(), HasSubstr("in float_data and int64_data"));
}

TEST_F(CodecTest, RefusesListsOfAnotherType) {
  Shape({1});
  tensor_.add_double_data(1);
  EXPECT_THAT(Refusal(), HasSubstr("inputs[X].double_data: float32 elements come in float_data or raw"));
}

TEST_F(CodecTest, RefusesCountsThatDisagreeWithTheShape) {
  Shape({2, 3});
  tensor_.set_raw("123");
  EXPECT_THAT(Refusal(), HasSubstr("inputs[X].raw: raw has 3 bytes, but shape [2, 3] of float32 takes 24"));
  tensor_.clear_raw();
  tensor_.add_float_data(1);
  EXPECT_THAT(Refusal(), HasSubstr("inputs[X].float_data: float_data has 1 values, but shape [2, 3] takes 6"));
  Shape({0});
  EXPECT_THAT(Refusal(), HasSubstr("takes 0"));
}

TEST_F(CodecTest, RefusesAbsurdShapes) {
  constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{-1},
                                            {kLarge, 2},
                                            {kLarge},
                                            {int64_t{1} << 32, int64_t{1} << 32},
                                            {0, kLarge, kLarge},
                                            {1, 1, 1, 1, 1, 1, 1, 1, 1},
                                            {std::numeric_limits<int64_t>::min()}}) {
    Shape(shape);
    EXPECT_THAT(Refusal(), HasSubstr("inputs[X].shape: "));
  }
}

TEST_F(CodecTest, RefusesUnknownTypesAndAbsurdNames) {
  Shape({0});
  for (const int type : {0, 2, 99, -1}) {
    tensor_.set_data_type(static_cast<v1::DataType>(type));
    EXPECT_THAT(Refusal(), HasSubstr("inputs[X].data_type: data_type " + std::to_string(type)));
  }
  tensor_.set_data_type(v1::FLOAT);
  tensor_.set_name("");
  EXPECT_THAT(Refusal(), HasSubstr("inputs[0].name: "));
  tensor_.set_name(std::string(129, 'X'));
  EXPECT_THAT(Refusal(), HasSubstr("inputs[0].name: the name has 129 bytes"));
  tensor_.set_name("X");
  for (int k = 0; k < 64; ++k) *request_.add_inputs() = tensor_;
  EXPECT_THAT(Refusal(), HasSubstr("inputs: inputs has 65 tensors"));
}

TEST_F(CodecTest, RefusesScalarsOutOfRange) {
  Shape({0});
  request_.set_priority(-101);
  EXPECT_THAT(Refusal(), HasSubstr("priority: priority is -101"));
  request_.set_priority(100);
  request_.set_request_id(std::string(129, 'x'));
  EXPECT_THAT(Refusal(), HasSubstr("request_id: "));
  request_.set_request_id(std::string(128, 'x'));
  EXPECT_EQ(Refusal(), "accepted");
  request_.set_fingerprint(std::string(63, '0') + "g");
  EXPECT_THAT(Refusal(), HasSubstr("fingerprint: "));
  request_.mutable_model();
  EXPECT_THAT(Refusal(), HasSubstr("model.name: "));
  request_.mutable_model()->set_name("m");
  request_.mutable_model()->set_version(0);
  EXPECT_THAT(Refusal(), HasSubstr("model.version: version is 0"));
  request_.mutable_model()->clear_version();
  request_.mutable_options()->set_empty_row_state(static_cast<v1::EmptyRowState>(3));
  EXPECT_THAT(Refusal(), HasSubstr("options.empty_row_state: 3"));
  request_.clear_target();
  EXPECT_THAT(Refusal(), HasSubstr("target: "));
}

TEST_F(CodecTest, FingerprintsAreLowerCase) {
  Shape({0});
  request_.set_fingerprint(std::string(64, 'A'));
  const absl::StatusOr<InferCall> call = DecodeInfer(request_);
  EXPECT_EQ(std::get<ModelFingerprint>(call->target).hex, std::string(64, 'a'));
}

TEST(OperatorCodec, GoesThereAndBack) {
  OperatorDef op;
  op.domain = "ai.onnx";
  op.op_type = "LSTM";
  op.opset = 17;
  op.attributes = {{"clip", 1.5f},
                   {"hidden_size", int64_t{3}},
                   {"direction", std::string("reverse")},
                   {"activation_alpha", std::vector<float>{0.1f, 0.2f}},
                   {"axes", std::vector<int64_t>{1, -2}},
                   {"activations", std::vector<std::string>{"Tanh", "Relu"}}};
  v1::Operator message;
  EncodeOperator(op, message);
  const absl::StatusOr<OperatorDef> decoded = DecodeOperator(message, "operator");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->domain, op.domain);
  EXPECT_EQ(decoded->op_type, op.op_type);
  EXPECT_EQ(decoded->version, std::nullopt);
  EXPECT_EQ(decoded->opset, op.opset);
  EXPECT_EQ(decoded->attributes, op.attributes);
}

TEST(OperatorCodec, RefusesAttributesWithoutAValue) {
  v1::Operator message;
  (*message.mutable_attributes())["clip"];
  const absl::Status status = DecodeOperator(message, "operator").status();
  EXPECT_EQ(FieldOf(status), "operator.attributes[clip]");
}

TEST(OptionsCodec, GoesThereAndBack) {
  OptionalOptions options;
  options.clip_cell_input = false;
  options.empty_row_state = EmptyRowState::kInitial;
  options.deterministic = true;
  v1::Options message;
  EncodeOptions(options, message);
  const absl::StatusOr<OptionalOptions> decoded = DecodeOptions(message);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->clip_cell_input, false);
  EXPECT_EQ(decoded->empty_row_state, EmptyRowState::kInitial);
  EXPECT_EQ(decoded->deterministic, true);
  EXPECT_EQ(decoded->allow_reduced_precision, std::nullopt);
  EXPECT_EQ(decoded->weights, std::nullopt);
}

TEST(OptionsCodec, WeightTypes) {
  for (const WeightType type : {WeightType::kAsGiven, WeightType::kFloat16, WeightType::kBFloat16, WeightType::kInt8}) {
    v1::Options message;
    EncodeOptions({.weights = type}, message);
    EXPECT_EQ(v1::Options::WeightType_Name(message.weight_type()), WeightTypeName(type));
    EXPECT_EQ(DecodeOptions(message).value().weights, type);
  }
  v1::Options message;
  message.set_weight_type(v1::Options::WEIGHT_TYPE_UNSPECIFIED);
  EXPECT_EQ(DecodeOptions(message).value().weights, std::nullopt);
  for (const int unknown : {5, -1, 1 << 30}) {
    message.set_weight_type(static_cast<v1::Options::WeightType>(unknown));
    const absl::Status refused = DecodeOptions(message).status();
    EXPECT_EQ(FieldOf(refused), "options.weight_type");
    EXPECT_TRUE(
        std::string(refused.message()).ends_with("is neither AS_GIVEN (1), FLOAT16 (2), BFLOAT16 (3) nor INT8 (4)"));
  }
}

bool Guarded(const std::string& bytes) {
  google::protobuf::io::ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  return CheckParts(in, *v1::InferRequest::descriptor()).ok();
}

TEST(WireGuard, LetsLargeHonestMessagesPass) {
  v1::InferRequest request;
  v1::Tensor& tensor = *request.add_inputs();
  tensor.set_raw(std::string(1 << 20, '\x2a'));  // would look like tags if read as a message
  for (int k = 0; k < 100'000; ++k) request.add_inputs()->Clear();
  request.mutable_inputs()->DeleteSubrange(1, 100'000);
  for (int k = 0; k < 100'000; ++k) tensor.add_float_data(1);
  EXPECT_TRUE(Guarded(request.SerializeAsString()));
}

TEST(WireGuard, CountsPartsAtEveryDepth) {
  v1::InferRequest request;
  for (int k = 0; k <= kMaxMessageParts; ++k) request.add_outputs("");
  EXPECT_FALSE(Guarded(request.SerializeAsString()));
  request.clear_outputs();
  auto& strings = *(*request.mutable_operator_()->mutable_attributes())["activations"].mutable_strings();
  for (int k = 0; k <= kMaxMessageParts; ++k) strings.add_values("");
  EXPECT_FALSE(Guarded(request.SerializeAsString()));
  std::string unknown;
  for (int k = 0; k <= kMaxMessageParts; ++k) unknown += "\x78\x01";  // field 15
  EXPECT_FALSE(Guarded(unknown));
}

TEST(WireGuard, LeavesBrokenBytesToTheParser) {
  EXPECT_TRUE(Guarded(std::string(100, '\xff')));
  EXPECT_TRUE(Guarded("\x2a\x7f"));
}

}  // namespace
}  // namespace rnnserve
