// SPDX-License-Identifier: Apache-2.0
// A gRPC service of raw bytes that announces a call with its headers; the server reads each message when it asks for
// it. Generated services read a unary call's message before they announce the call: the messages of all callers would
// be in memory at once, and gRPC's own quota would be the first to refuse.
//
//   const int infer = service.AddUnary("/rnnserve.v1.Recurrent/Infer");
//   service.RequestUnary(infer, &context, &reader, queue, tag);   // comes back with the headers
//   reader.Read(&message, tag);
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/async_stream.h>

namespace rnnserve {

// What the caller sees as one message each way: to HTTP/2 a unary call is a stream like any other.
using RawReader = grpc::ServerAsyncReader<grpc::ByteBuffer, grpc::ByteBuffer>;
using RawStream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

class RawService final : public grpc::Service {
 public:
  // The method's index. `path` lives as long as the service.
  int AddUnary(const char* path) { return Add(path, grpc::internal::RpcMethod::CLIENT_STREAMING); }
  int AddStream(const char* path) { return Add(path, grpc::internal::RpcMethod::BIDI_STREAMING); }

  void RequestUnary(int method, grpc::ServerContext* context, RawReader* reader, grpc::ServerCompletionQueue* queue,
                    void* tag) {
    RequestAsyncClientStreaming(method, context, reader, queue, queue, tag);
  }
  void RequestStream(int method, grpc::ServerContext* context, RawStream* stream, grpc::ServerCompletionQueue* queue,
                     void* tag) {
    RequestAsyncBidiStreaming(method, context, stream, queue, queue, tag);
  }

 private:
  int Add(const char* path, grpc::internal::RpcMethod::RpcType type) {
    AddMethod(new grpc::internal::RpcServiceMethod(path, type, nullptr));  // owned by the base
    MarkMethodRaw(methods_);
    return methods_++;
  }

  int methods_ = 0;
};

}  // namespace rnnserve
