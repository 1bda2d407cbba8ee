// SPDX-License-Identifier: Apache-2.0
// Models over a real connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/api/raw_call.h"
#include "tests/server/api/running_server.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

v1::LoadRequest Load(const std::string& name, float w = 0.5) {
  const v1::InferRequest rnn = RnnRequest({1}, "");
  v1::LoadRequest load;
  load.set_name(name);
  *load.mutable_inline_()->mutable_operator_() = rnn.operator_();
  AddTensor(*load.mutable_inline_()->mutable_weights(), "W", {1, 1, 1}, {w});
  AddTensor(*load.mutable_inline_()->mutable_weights(), "R", {1, 1, 1}, {0.25});
  return load;
}

class ModelsTest : public testing::Test {
 protected:
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::Models::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response) {
    grpc::ClientContext context;
    return (server_.models.get()->*method)(&context, request, &response);
  }
  grpc::Status Load(const v1::LoadRequest& request) { return Call(&v1::Models::Stub::Load, request, loaded_); }

  RunningServer server_;
  v1::LoadResponse loaded_;
};

TEST_F(ModelsTest, LoadsTellsAndRuns) {
  const grpc::Status status = Load(rnnserve::Load("tiny"));
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::ModelInfo& info = loaded_.model();
  EXPECT_EQ(info.name(), "tiny");
  EXPECT_EQ(info.version(), 1);
  EXPECT_THAT(info.fingerprint(), SizeIs(64));
  EXPECT_EQ(info.operator_().op_type(), "RNN");
  EXPECT_EQ(info.operator_().attributes().at("hidden_size").i(), 1);
  ASSERT_EQ(info.inputs_size(), 3);
  EXPECT_EQ(info.inputs(0).name(), "X");
  EXPECT_THAT(info.inputs(0).shape(), ElementsAre("T", "N", "1"));
  ASSERT_EQ(info.outputs_size(), 2);
  EXPECT_THAT(info.outputs(0).shape(), ElementsAre("T", "1", "N", "1"));
  ASSERT_EQ(info.state_size(), 1);
  EXPECT_EQ(info.state(0).name(), "initial_h");
  EXPECT_EQ(info.source(), "upload");
  EXPECT_GT(info.weight_bytes(), 0);
  EXPECT_EQ(info.packed_bytes(), 0);

  v1::InferRequest request;
  request.mutable_model()->set_name("tiny");
  request.set_engine("fake");
  AddTensor(*request.mutable_inputs(), "X", {2, 1, 1}, {3, 4});
  grpc::ClientContext context;
  v1::InferResponse response;
  const grpc::Status inferred = server_.recurrent->Infer(&context, request, &response);
  ASSERT_TRUE(inferred.ok()) << inferred.error_message();
  EXPECT_THAT(Values(response.outputs(1)), ElementsAre(7));
  EXPECT_EQ(response.fingerprint(), info.fingerprint());

  v1::GetModelRequest get;
  get.set_fingerprint(info.fingerprint());
  v1::GetModelResponse got;
  ASSERT_TRUE(Call(&v1::Models::Stub::Get, get, got).ok());
  EXPECT_EQ(got.model().name(), "tiny");
  EXPECT_EQ(got.model().packed_bytes(), 4);
}

TEST_F(ModelsTest, EqualContentIsFineAndOtherContentIsNot) {
  ASSERT_TRUE(Load(rnnserve::Load("tiny")).ok());
  EXPECT_TRUE(Load(rnnserve::Load("tiny")).ok());
  v1::LoadRequest other = rnnserve::Load("tiny", 0.75);
  other.set_version(1);
  EXPECT_EQ(Load(other).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(ModelsTest, ListsByNameAndVersionUntilUnloaded) {
  v1::LoadRequest second = rnnserve::Load("tiny", 0.75);
  second.set_version(2);
  ASSERT_TRUE(Load(second).ok());
  v1::LoadRequest first = rnnserve::Load("tiny");
  first.set_version(1);
  ASSERT_TRUE(Load(first).ok());
  ASSERT_TRUE(Load(rnnserve::Load("other")).ok());
  v1::ListModelsResponse list;
  ASSERT_TRUE(Call(&v1::Models::Stub::List, v1::ListModelsRequest(), list).ok());
  std::vector<std::string> names;
  for (const v1::ModelInfo& info : list.models()) names.push_back(absl::StrCat(info.name(), "/", info.version()));
  EXPECT_THAT(names, ElementsAre("other/1", "tiny/1", "tiny/2"));

  v1::UnloadRequest unload;
  unload.mutable_model()->set_name("other");
  v1::UnloadResponse unloaded;
  EXPECT_TRUE(Call(&v1::Models::Stub::Unload, unload, unloaded).ok());
  const grpc::Status again = Call(&v1::Models::Stub::Unload, unload, unloaded);
  EXPECT_EQ(again.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonIn(again), "MODEL_UNKNOWN");
}

TEST_F(ModelsTest, NamesTheFieldOfABadRequest) {
  const auto field = [&](auto change) {
    v1::LoadRequest request = rnnserve::Load("tiny");
    change(request);
    const grpc::Status status = Load(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return FieldIn(status);
  };
  for (const std::string& name :
       {std::string(), std::string(".hidden"), std::string("a/b"), std::string(129, 'a'), std::string("na\0me", 5)}) {
    EXPECT_EQ(field([&](auto& request) { request.set_name(name); }), "name");
  }
  EXPECT_EQ(field([](auto& request) { request.set_version(0); }), "version");
  EXPECT_EQ(field([](auto& request) { request.clear_source(); }), "source");
  EXPECT_EQ(field([](auto& request) { request.set_repository(false); }), "repository");
  EXPECT_EQ(field([](auto& request) { request.set_engine("abacus"); }), "engine");
  EXPECT_EQ(field([](auto& request) { request.mutable_inline_()->mutable_operator_()->set_op_type("CNN"); }),
            "inline.operator.op_type");
  EXPECT_EQ(field([](auto& request) { request.mutable_inline_()->mutable_weights(0)->set_shape(1, 2); }),
            "inline.weights[W].float_data");
  EXPECT_EQ(field([](auto& request) {
              request.mutable_inline_()->mutable_weights(0)->set_shape(2, 2);
              request.mutable_inline_()->mutable_weights(0)->add_float_data(1);
              request.mutable_inline_()->mutable_weights(1)->add_shape(1);
            }),
            "inline.weights[R].shape");
  v1::GetModelResponse got;
  EXPECT_EQ(FieldIn(Call(&v1::Models::Stub::Get, v1::GetModelRequest(), got)), "by");
  v1::GetModelRequest get;
  get.set_fingerprint("abc");
  EXPECT_EQ(FieldIn(Call(&v1::Models::Stub::Get, get, got)), "fingerprint");
}

TEST_F(ModelsTest, KeepsWeightsOutOfRequestsToModels) {
  ASSERT_TRUE(Load(rnnserve::Load("tiny")).ok());
  v1::InferRequest request = RnnRequest({1}, "fake");
  request.mutable_model()->set_name("tiny");
  grpc::ClientContext context;
  v1::InferResponse response;
  const grpc::Status status = server_.recurrent->Infer(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldIn(status), "inputs[W]");
}

}  // namespace
}  // namespace rnnserve
