// SPDX-License-Identifier: Apache-2.0
#include "server/api/reflection/reflection_service.h"

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/api/reflection/reflection_answer.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/status_table.h"

namespace rnnserve {
namespace {

using grpc::reflection::v1::ServerReflectionRequest;

constexpr int kMaxStreams = 100;
// A request comes back as part of its answer; no name here is nearly as long.
constexpr size_t kMaxReflectionBytes = 4096;

absl::Status CheckedParse(grpc::ByteBuffer& bytes, ServerReflectionRequest& request) {
  if (bytes.Length() > kMaxReflectionBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request has ", bytes.Length(), " bytes; nothing here has a name of more than ", kMaxReflectionBytes));
  }
  return ParseBytes(bytes, request);
}

}  // namespace

ReflectionService::ReflectionService(std::span<const std::string_view> services, const RequestMetrics& requests)
    : metrics_(requests.Untimed("ServerReflection.ServerReflectionInfo")),
      services_(services),
      methods_{service_.AddStream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
               service_.AddStream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")} {
  // Linked in, and so described.
  google::protobuf::LinkMessageReflection<grpc::reflection::v1alpha::ServerReflectionRequest>();
}

void ReflectionService::Serve(Poller& poller, SendWatch& send_watch) {
  for (const int method : methods_) ServeStream(method, poller, send_watch);
}

CallTask ReflectionService::ServeStream(int method, Poller& poller, SendWatch& send_watch) {
  const Poller::QueueGuard guard(poller);
  grpc::ServerContext context;
  RawStream stream(&context);
  const bool arrived =
      co_await Completion([&](void* tag) { service_.RequestStream(method, &context, &stream, poller.queue(), tag); });
  if (!arrived) co_return;
  ServeStream(method, poller, send_watch);

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
