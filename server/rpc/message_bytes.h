// SPDX-License-Identifier: Apache-2.0
// Between the bytes of raw methods and protobuf messages.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "base/elements.h"

namespace rnnserve {

// A copy: gRPC's own bytes keep all that came with them.
Elements BytesOf(grpc::ByteBuffer& bytes);

// INVALID_ARGUMENT without a field path if the bytes are no such message, or one of absurdly many parts.
absl::Status ParseBytes(grpc::ByteBuffer& bytes, google::protobuf::Message& message);

// One slice.
grpc::ByteBuffer SerialiseBytes(const google::protobuf::Message& message);

}  // namespace rnnserve
