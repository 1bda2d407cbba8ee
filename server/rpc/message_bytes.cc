// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/message_bytes.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/rpc/wire_guard.h"

namespace rnnserve {
namespace {

// Smaller messages cannot grow into much, whatever they hold.
constexpr size_t kUnguardedBytes = 64 << 10;

}  // namespace

Elements BytesOf(grpc::ByteBuffer& bytes) {
  Elements copy = Elements::ToFill(bytes.Length());
  grpc::ProtoBufferReader reader(&bytes);
  char* to = copy.data();
  const void* piece = nullptr;
  for (int size = 0; reader.Next(&piece, &size); to += size) std::memcpy(to, piece, static_cast<size_t>(size));
  return copy;
}

absl::Status ParseBytes(grpc::ByteBuffer& bytes, google::protobuf::Message& message) {
  if (bytes.Length() > kUnguardedBytes) {
    grpc::ProtoBufferReader reader(&bytes);
    if (absl::Status status = CheckParts(reader, *message.GetDescriptor()); !status.ok()) return status;
  }
  grpc::ProtoBufferReader reader(&bytes);
  if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request's ", bytes.Length(), " bytes are not a valid ", message.GetDescriptor()->full_name()));
}

grpc::ByteBuffer SerialiseBytes(const google::protobuf::Message& message) {
  grpc::Slice slice(message.ByteSizeLong());
  // No other reference to this slice exists, so it may be written.
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace rnnserve
