// SPDX-License-Identifier: Apache-2.0
// Calls of both dialects share batches.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "inference/grpc_service.pb.h"
#include "tests/server/api/raw_call.h"
#include "tests/server/api/running_server.h"

namespace rnnserve {
namespace {

std::string KserveRequest() {
  inference::ModelInferRequest request;
  request.set_model_name("m");
  auto& x = *request.add_inputs();
  x.set_name("X");
  x.set_datatype("FP32");
  for (const int64_t axis : {1, 1, 1}) x.add_shape(axis);
  x.mutable_contents()->add_fp32_contents(3);
  return request.SerializeAsString();
}

TEST(Dialects, ShareABatch) {
  RunningServer* running = nullptr;
  std::atomic<bool> has_begun = false, all_came = false;
  RunningServer server({.before_slice =
                            [&] {  // the first slice waits until one call of each dialect waits behind it
                              has_begun = true;
                              while (!all_came && running->workers.load().sequences < 3) std::this_thread::yield();
                              all_came = true;
                              return absl::OkStatus();
                            },
                        .workers = 1});
  running = &server;
  v1::LoadRequest load;
  load.set_name("m");
  load.set_engine("fake");
  const v1::InferRequest rnn = RnnRequest({1}, "fake");
  *load.mutable_inline_()->mutable_operator_() = rnn.operator_();
  AddTensor(*load.mutable_inline_()->mutable_weights(), "W", {1, 1, 1}, {0.5});
  AddTensor(*load.mutable_inline_()->mutable_weights(), "R", {1, 1, 1}, {0.25});
  v1::LoadResponse loaded;
  grpc::ClientContext loading;
  ASSERT_TRUE(server.models->Load(&loading, load, &loaded).ok());

  const auto infer = [&](v1::InferResponse& response) {
    v1::InferRequest request;
    request.mutable_model()->set_name("m");
    AddTensor(*request.mutable_inputs(), "X", {1, 1, 1}, {2});
    grpc::ClientContext context;
    const grpc::Status status = server.recurrent->Infer(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  };
  v1::InferResponse first, native;
  RawReply kserve;
  std::thread holding([&] { infer(first); });
  while (!has_begun) std::this_thread::yield();
  std::thread one([&] { infer(native); });
  std::thread other(
      [&] { kserve = SendBytes(server.channel, "/inference.GRPCInferenceService/ModelInfer", KserveRequest()); });
  holding.join();
  one.join();
  other.join();
  EXPECT_EQ(first.largest_batch(), 1);
  EXPECT_EQ(native.largest_batch(), 2);
  EXPECT_EQ(Values(native.outputs(0)), std::vector<float>{2});
  inference::ModelInferResponse response;
  ASSERT_TRUE(kserve.status.ok() && response.ParseFromString(kserve.bytes)) << kserve.status.error_message();
  float y = 0;
  ASSERT_EQ(response.raw_output_contents(0).size(), sizeof(y));
  std::memcpy(&y, response.raw_output_contents(0).data(), sizeof(y));
  EXPECT_EQ(y, 3);
}

}  // namespace
}  // namespace rnnserve
