// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/reflection/reflection_service.h"

#include <grpcpp/support/async_stream.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/frontend/reflection/reflection_answer.h"
#include "server/frontend/rpc/message_bytes.h"
#include "server/frontend/status_table.h"

namespace rnnserve {
namespace {

using grpc::reflection::v1alpha::ServerReflectionRequest;

constexpr int kSlots = 4;  // calls that may arrive at the same moment
constexpr int kMaxStreams = 100;
// A request comes back as part of its answer; no name here is nearly as long.
constexpr size_t kMaxRequestBytes = 4096;

absl::Status CheckedParse(grpc::ByteBuffer& bytes, ServerReflectionRequest& request) {
  if (bytes.Length() > kMaxRequestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the request has ", bytes.Length(),
                                                   " bytes; nothing here has a name of more than ", kMaxRequestBytes));
  }
  return ParseBytes(bytes, request);
}

}  // namespace

void ReflectionService::Serve(Poller& poller, SendWatch& send_watch) {
  for (int k = 0; k < kSlots; ++k) ServeStream(poller, send_watch);
}

CallTask ReflectionService::ServeStream(Poller& poller, SendWatch& send_watch) {
  const Poller::Hold hold(poller);
  grpc::ServerContext context;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream(&context);
  const bool arrived = co_await Completion(
      [&](void* tag) { service_.RequestServerReflectionInfo(&context, &stream, poller.queue(), poller.queue(), tag); });
  if (!arrived) co_return;
  ServeStream(poller, send_watch);

  absl::Status status;
  if (++streams_ > kMaxStreams) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("reflection has ", kMaxStreams, " streams open, as many as it takes; ask again later"));
  }
  while (status.ok()) {
    grpc::ByteBuffer bytes;
    const bool read = co_await Completion([&](void* tag) { stream.Read(&bytes, tag); });
    if (!read) break;
    ServerReflectionRequest request;
    status = CheckedParse(bytes, request);
    if (!status.ok()) break;
    const grpc::ByteBuffer answer =
        SerialiseBytes(AnswerReflection(request, services_, *google::protobuf::DescriptorPool::generated_pool()));
    const SendWatch::Sending sending(send_watch, &context);
    const bool written = co_await Completion([&](void* tag) { stream.Write(answer, tag); });
    if (!written) break;
  }
  metrics_->Ended(status.code());
  co_await Completion([&](void* tag) {
    const WireError error = status.ok() ? WireError() : ToWireError(status);
    stream.Finish(status.ok() ? grpc::Status::OK : grpc::Status(error.code, error.message, error.details), tag);
  });
  --streams_;
}

}  // namespace rnnserve
