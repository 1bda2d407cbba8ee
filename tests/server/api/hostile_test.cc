// SPDX-License-Identifier: Apache-2.0
// Messages that would cost far more memory than they have bytes, and names that mean two things.
#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "absl/time/clock.h"
#include "rnnserve/v1/recurrent.pb.h"
#include "server/rpc/wire_guard.h"
#include "tests/server/api/raw_call.h"
#include "tests/server/api/running_server.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

bool PassesGuard(const std::string& bytes) {
  google::protobuf::io::ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  const absl::Status status = CheckParts(in, *v1::InferRequest::descriptor());
  EXPECT_TRUE(status.ok() || LimitOf(status)) << status;
  return status.ok();
}

std::string Times(int count, const std::string& bytes) {
  std::string text;
  for (int k = 0; k < count; ++k) text += bytes;
  return text;
}

TEST(WireGuard, CountsKnownFieldsOfAnotherWireType) {
  EXPECT_TRUE(PassesGuard(Times(kMaxMessageParts, std::string("\x28\x00", 2))));  // `inputs` as a number
  EXPECT_FALSE(PassesGuard(Times(kMaxMessageParts + 1, std::string("\x28\x00", 2))));
}

TEST(WireGuard, BoundsPackedIntegersButNotRawBytes) {
  v1::InferRequest request;
  v1::Tensor& tensor = *request.add_inputs();
  tensor.set_raw(std::string(2 * kMaxMessageIntegers, '\0'));
  tensor.mutable_float_data()->Resize(4 << 20, 1);
  tensor.mutable_int32_data()->Resize(kMaxMessageIntegers, 1);
  EXPECT_TRUE(PassesGuard(request.SerializeAsString()));
  tensor.add_shape(1);
  EXPECT_FALSE(PassesGuard(request.SerializeAsString()));
}

TEST(WireGuard, BoundsIntegersThatAreNotPacked) {
  // In one tensor: int64_data is field 8.
  const std::string numbers = Times(kMaxMessageIntegers + 1, std::string("\x40\x00", 2));
  google::protobuf::io::ArrayInputStream in(numbers.data(), static_cast<int>(numbers.size()));
  const absl::Status status = CheckParts(in, *v1::Tensor::descriptor());
  EXPECT_THAT(std::string(status.message()), HasSubstr("raw"));
}

TEST(Compression, IsRefusedBeforeItGrows) {
  RunningServer server;
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::InferRequest request = RnnRequest({1}, "fake");
  request.set_request_id(std::string(64, ' '));
  v1::InferResponse response;
  const grpc::Status status = server.recurrent->Infer(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
}

// Sends a request and never reads the reply.
class DeafCaller {
 public:
  DeafCaller(const std::shared_ptr<grpc::Channel>& channel, const v1::InferRequest& request) : stub_(channel) {
    const grpc::Slice slice(request.SerializeAsString());
    call_ = stub_.PrepareCall(&context_, "/rnnserve.v1.Recurrent/Infer", &queue_);
    call_->StartCall(this);
    Await();
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), {}, this);
    Await();
  }
  ~DeafCaller() {
    grpc::Status status;
    context_.TryCancel();
    call_->Finish(&status, this);
    Await();
  }

 private:
  void Await() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

TEST(SlowReaders, LoseTheirReply) {
  std::promise<void> computed;
  RunningServer::Setup setup;
  setup.before_slice = [&, done = false]() mutable {
    if (!std::exchange(done, true)) computed.set_value();
    return absl::OkStatus();
  };
  setup.server.max_send_duration = absl::Milliseconds(100);
  setup.core.max_steps = 8 << 20;
  setup.server.max_message_bytes = -1;
  RunningServer server(std::move(setup));
  const DeafCaller caller(server.channel, RnnRequest(std::vector<float>(8 << 20, 1), "fake"));
  computed.get_future().wait();
  EXPECT_TRUE(server.server->Drain(absl::Now() + absl::Seconds(60)));
}

TEST(Health, OfAServiceIsNotThatOfAModelOfItsName) {
  RunningServer server;
  const v1::InferRequest rnn = RnnRequest({1}, "");
  v1::LoadRequest load;
  load.set_name("rnnserve.v1.Recurrent");
  *load.mutable_inline_()->mutable_operator_() = rnn.operator_();
  *load.mutable_inline_()->add_weights() = rnn.inputs(1);
  *load.mutable_inline_()->add_weights() = rnn.inputs(2);
  grpc::ClientContext load_context, unload_context;
  v1::LoadResponse loaded;
  ASSERT_TRUE(server.models->Load(&load_context, load, &loaded).ok());
  v1::UnloadRequest unload;
  unload.mutable_model()->set_name("rnnserve.v1.Recurrent");
  v1::UnloadResponse unloaded;
  ASSERT_TRUE(server.models->Unload(&unload_context, unload, &unloaded).ok());
  const RawReply health = SendBytes(server.channel, "/grpc.health.v1.Health/Check", "\x0a\x15rnnserve.v1.Recurrent");
  EXPECT_EQ(health.bytes, "\x08\x01");
}

}  // namespace
}  // namespace rnnserve
