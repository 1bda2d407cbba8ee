// SPDX-License-Identifier: Apache-2.0
#include "tests/server/api/raw_call.h"

#include <future>

namespace rnnserve {
namespace {

grpc::ByteBuffer BufferOf(std::string_view bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return {};
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

}  // namespace

RawReply SendBytes(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, std::string_view bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::ByteBuffer request = BufferOf(bytes);
  grpc::ByteBuffer reply;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, {}, &request, &reply, [&](grpc::Status status) { done.set_value(status); });
  const grpc::Status status = done.get_future().get();
  return {status, status.ok() ? BytesOf(reply) : std::string()};
}

RawWatch::RawWatch(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, std::string_view bytes)
    : stub_(channel), stream_(stub_.PrepareCall(&context_, method, &queue_)) {
  stream_->StartCall(this);
  if (!Await()) return;
  stream_->WriteLast(BufferOf(bytes), {}, this);
  Await();
}

RawWatch::~RawWatch() {
  context_.TryCancel();
  grpc::Status status;
  stream_->Finish(&status, this);
  Await();
}

std::optional<std::string> RawWatch::Next() {
  grpc::ByteBuffer reply;
  stream_->Read(&reply, this);
  if (!Await()) return std::nullopt;
  return BytesOf(reply);
}

bool RawWatch::Await() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

std::string FieldIn(const grpc::Status& status) {
  const auto bad_request = DetailOf<google::rpc::BadRequest>(status);
  return bad_request && bad_request->field_violations_size() == 1 ? bad_request->field_violations(0).field() : "(none)";
}

std::string ReasonIn(const grpc::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  return info && info->domain() == "rnnserve" ? info->reason() : "(none)";
}

}  // namespace rnnserve
