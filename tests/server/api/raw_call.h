// SPDX-License-Identifier: Apache-2.0
// Calls of a client that knows no messages, and a look into google.rpc details.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "google/rpc/error_details.pb.h"

namespace rnnserve {

struct RawReply {
  grpc::Status status;
  std::string bytes;
};

// Sends bytes as they are. `method` may be a streaming one that answers each message once.
RawReply SendBytes(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, std::string_view bytes);

// A stream of replies to one message.
class RawWatch {
 public:
  RawWatch(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, std::string_view bytes);
  ~RawWatch();
  // The next reply; nullopt when the stream has ended.
  std::optional<std::string> Next();

 private:
  bool Await();

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

template <typename Detail>
std::optional<Detail> DetailOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& any : details.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

// The field path of a BadRequest, "(none)" without one.
std::string FieldIn(const grpc::Status& status);
// The reason of rnnserve's ErrorInfo, "(none)" without one.
std::string ReasonIn(const grpc::Status& status);

}  // namespace rnnserve
