// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/health.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <string>
#include <vector>

namespace rnnserve::client {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// HealthCheckRequest { string service = 1; }
grpc::ByteBuffer EncodeRequest(std::string_view service) {
  std::string bytes;
  if (!service.empty()) {
    google::protobuf::io::StringOutputStream sink(&bytes);
    CodedOutputStream out(&sink);
    out.WriteTag(1 << 3 | 2);
    out.WriteVarint32(static_cast<uint32_t>(service.size()));
    out.WriteRaw(service.data(), static_cast<int>(service.size()));
  }
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// HealthCheckResponse { enum { UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN } status = 1; }
HealthStatus DecodeReply(const grpc::ByteBuffer& reply) {
  std::vector<grpc::Slice> slices;
  if (!reply.Dump(&slices).ok()) return HealthStatus::kUnknown;
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  uint32_t value = 0;
  if (in.ReadTag() != (1 << 3 | 0) || !in.ReadVarint32(&value)) return HealthStatus::kUnknown;
  return value == 1 ? HealthStatus::kServing : value == 2 ? HealthStatus::kNotServing : HealthStatus::kUnknown;
}

}  // namespace

HealthStatus CheckHealth(const std::shared_ptr<grpc::ChannelInterface>& channel, grpc::ClientContext& context,
                         std::string_view service, grpc::Status& status) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer reply;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", EncodeRequest(service), &queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status.ok() ? DecodeReply(reply) : HealthStatus::kUnknown;
}

}  // namespace rnnserve::client
