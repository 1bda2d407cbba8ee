// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "server/api/kserve/infer_codec.h"
#include "server/api/kserve/tensor_codec.h"

namespace rnnserve::kserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A request with one good input.
class KserveCodecTest : public testing::Test {
 protected:
  KserveCodecTest() {
    request_.set_model_name("m");
    input_.set_name("X");
    input_.set_datatype("FP32");
    input_.add_shape(2);
    request_.add_raw_input_contents(std::string(8, '\0'));
  }

  std::string RefusedField() {
    const absl::StatusOr<InferRequest> decoded = DecodeInfer(request_);
    if (decoded.ok()) return "accepted";
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
    return FieldOf(decoded.status()).value_or("(no field)");
  }
  inference::InferParameter& Parameter(const std::string& key) { return (*request_.mutable_parameters())[key]; }

  inference::ModelInferRequest request_;
  inference::ModelInferRequest::InferInputTensor& input_ = *request_.add_inputs();
};

TEST_F(KserveCodecTest, RawBytesAreViewedWhereTheyAre) {
  const absl::StatusOr<InferRequest> decoded = DecodeInfer(request_);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const TensorView& view = decoded->call.inputs.at(0).tensor;
  EXPECT_EQ(static_cast<const void*>(view.data.data()), request_.raw_input_contents(0).data());
  EXPECT_THAT(view.shape, ElementsAre(2));
}

TEST_F(KserveCodecTest, EveryTypeHasItsSize) {
  for (const auto& [type, size] : std::vector<std::pair<std::string, int>>{
           {"FP32", 4}, {"FP64", 8}, {"FP16", 2}, {"BF16", 2}, {"INT32", 4}, {"INT64", 8}}) {
    input_.set_datatype(type);
    request_.set_raw_input_contents(0, std::string(2 * size, '\0'));
    EXPECT_EQ(RefusedField(), "accepted") << type;
    EXPECT_EQ(TypeText(DecodeInfer(request_)->call.inputs.at(0).tensor.type), type);
    request_.mutable_raw_input_contents(0)->pop_back();
    EXPECT_EQ(RefusedField(), "raw_input_contents") << type;
  }
  for (const char* type : {"", "fp32", "UINT8", "BOOL", "BYTES"}) {
    input_.set_datatype(type);
    EXPECT_EQ(RefusedField(), "inputs[X].datatype") << type;
  }
}

TEST_F(KserveCodecTest, TypedContentsComeInTheListOfTheirType) {
  request_.clear_raw_input_contents();
  EXPECT_EQ(RefusedField(), "inputs[X].contents");
  input_.mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(RefusedField(), "inputs[X].contents") << "one value too few";
  input_.mutable_contents()->add_fp32_contents(2);
  EXPECT_EQ(RefusedField(), "accepted");
  input_.mutable_contents()->add_int_contents(2);
  EXPECT_EQ(RefusedField(), "inputs[X].contents") << "two lists";
  for (const auto& [type, add] : std::vector<std::pair<std::string, void (*)(inference::InferTensorContents&)>>{
           {"FP64", [](auto& contents) { contents.add_fp64_contents(1); }},
           {"INT32", [](auto& contents) { contents.add_int_contents(1); }},
           {"INT64", [](auto& contents) { contents.add_int64_contents(1); }}}) {
    input_.clear_contents();
    input_.set_datatype(type);
    for (int k = 0; k < 2; ++k) add(*input_.mutable_contents());
    EXPECT_EQ(RefusedField(), "accepted") << type;
  }
  input_.set_datatype("FP16");
  EXPECT_EQ(RefusedField(), "inputs[X].contents") << "no list has 16-bit elements";
}

TEST_F(KserveCodecTest, ShapesThatFitNothing) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{-1, 2}, {int64_t{1} << 62, 4}, std::vector<int64_t>(9, 1)}) {
    input_.mutable_shape()->Assign(shape.begin(), shape.end());
    EXPECT_EQ(RefusedField(), "inputs[X].shape");
  }
  input_.clear_shape();
  input_.add_shape(3);
  EXPECT_EQ(RefusedField(), "raw_input_contents");
}

TEST_F(KserveCodecTest, SequenceIdsAreNumbersOrTexts) {
  EXPECT_FALSE(DecodeInfer(request_)->sequence.has_value());
  Parameter("sequence_id").set_int64_param(0);
  EXPECT_FALSE(DecodeInfer(request_)->sequence.has_value());
  Parameter("sequence_id").set_int64_param(-7);
  EXPECT_EQ(DecodeInfer(request_)->sequence->id, "-7");
  Parameter("sequence_id").set_uint64_param(UINT64_MAX);
  EXPECT_EQ(DecodeInfer(request_)->sequence->id, "18446744073709551615");
  Parameter("sequence_id").set_string_param("7");
  EXPECT_EQ(DecodeInfer(request_)->sequence->id, "7");
  Parameter("sequence_id").set_string_param(std::string(129, 'a'));
  EXPECT_EQ(RefusedField(), "parameters[sequence_id]");
  Parameter("sequence_id").set_bool_param(true);
  EXPECT_EQ(RefusedField(), "parameters[sequence_id]");
  request_.mutable_parameters()->erase("sequence_id");
  Parameter("sequence_end").set_bool_param(true);
  EXPECT_EQ(RefusedField(), "parameters[sequence_id]");
  Parameter("sequence_end").set_int64_param(1);
  EXPECT_EQ(RefusedField(), "parameters[sequence_end]");
}

TEST_F(KserveCodecTest, SequencesOfOpenVinoModelServerAreTensors) {
  const auto add = [&](const std::string& name, const std::string& type, std::string raw) {
    auto& input = *request_.add_inputs();
    input.set_name(name);
    input.set_datatype(type);
    input.add_shape(1);
    request_.add_raw_input_contents(std::move(raw));
  };
  add("sequence_id", "UINT64", std::string("\7\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(DecodeInfer(request_)->sequence->id, "7");
  EXPECT_FALSE(DecodeInfer(request_)->sequence->start);
  add("sequence_control_input", "UINT32", std::string("\1\0\0\0", 4));
  absl::StatusOr<InferRequest> decoded = DecodeInfer(request_);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->sequence->start);
  EXPECT_EQ(decoded->call.inputs.size(), 1U) << "X alone is the model's";
  inference::ModelInferResponse response;
  EncodeHead(request_, 1, response);
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs(0).name(), "sequence_id");
  EXPECT_EQ(response.raw_output_contents(0), request_.raw_input_contents(1));

  request_.mutable_raw_input_contents(2)->front() = '\2';
  EXPECT_TRUE(DecodeInfer(request_)->sequence->end);
  request_.mutable_raw_input_contents(2)->front() = '\3';
  EXPECT_EQ(RefusedField(), "inputs[sequence_control_input]");
  request_.mutable_raw_input_contents(2)->front() = '\1';
  Parameter("sequence_id").set_int64_param(7);
  EXPECT_EQ(RefusedField(), "inputs[sequence_id]") << "named twice";
  request_.clear_parameters();
  request_.set_raw_input_contents(1, "\7");
  EXPECT_EQ(RefusedField(), "inputs[sequence_id]") << "not one element";
  request_.set_raw_input_contents(1, std::string(8, '\0'));
  EXPECT_EQ(RefusedField(), "inputs[sequence_id]") << "0 is none";
}

TEST_F(KserveCodecTest, PriorityAndTimeout) {
  EXPECT_EQ(DecodeInfer(request_)->call.priority, 0);
  Parameter("priority").set_uint64_param(1);
  EXPECT_EQ(DecodeInfer(request_)->call.priority, 0);
  Parameter("priority").set_uint64_param(UINT64_MAX);
  EXPECT_EQ(DecodeInfer(request_)->call.priority, -100);
  EXPECT_EQ(DecodeInfer(request_)->timeout, absl::InfiniteDuration());
  Parameter("timeout").set_uint64_param(UINT64_MAX);
  EXPECT_GT(DecodeInfer(request_)->timeout, absl::Hours(24 * 365));
  Parameter("timeout").set_int64_param(1500);
  EXPECT_EQ(DecodeInfer(request_)->timeout, absl::Microseconds(1500));
  Parameter("timeout").set_int64_param(-1);
  EXPECT_EQ(RefusedField(), "parameters[timeout]");
}

TEST_F(KserveCodecTest, FilesOfALoad) {
  const auto refused = [](const std::vector<std::string>& keys) {
    inference::RepositoryModelLoadRequest load;
    load.set_model_name("m");
    for (const std::string& key : keys) (*load.mutable_parameters())[key].set_bytes_param("onnx");
    const absl::StatusOr<v1::LoadRequest> decoded = DecodeLoad(load);
    if (!decoded.ok()) return FieldOf(decoded.status()).value_or("(no field)");
    return std::string(decoded->repository() ? "repository" : decoded->onnx_file());
  };
  EXPECT_EQ(refused({}), "repository");
  EXPECT_EQ(refused({"config"}), "repository");
  EXPECT_EQ(refused({"config", "file:3/model.onnx"}), "onnx");
  EXPECT_EQ(refused({"file:3/../model.onnx"}), "parameters[file:3/../model.onnx]");
  EXPECT_EQ(refused({"file:model.onnx"}), "parameters[file:model.onnx]");
  EXPECT_THAT(refused({"file:1/model.onnx", "file:2/model.onnx"}), HasSubstr("/model.onnx]"));
}

}  // namespace
}  // namespace rnnserve::kserve
