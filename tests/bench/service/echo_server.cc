// SPDX-License-Identifier: Apache-2.0
// What gRPC alone costs: answers every rnnserve.v1.Recurrent/Infer with bytes, on one thread that polls one completion
// queue, with raw methods. Nothing is parsed. The yardstick of docs/benchmarks.md, driven by `rnnctl bench --echo`.
//
//   echo_server ADDRESS [REPLY_BYTES]     without REPLY_BYTES a reply is the request's own bytes
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_unary_call.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rnnserve/v1/recurrent.grpc.pb.h"

namespace {

using Service = rnnserve::v1::Recurrent::WithRawMethod_Infer<rnnserve::v1::Recurrent::Service>;

constexpr int kSlots = 256;  // calls that may arrive at the same moment

// One posted slot; serves one call after another.
class Slot {
 public:
  Slot(Service* service, grpc::ServerCompletionQueue* queue, const std::optional<grpc::ByteBuffer>* reply)
      : service_(service), queue_(queue), reply_(reply) {
    Post();
  }

  void Proceed(bool ok) {
    if (answering_ || !ok) return Post();
    answering_ = true;
    responder_->Finish(*reply_ ? **reply_ : request_, grpc::Status::OK, this);
  }

 private:
  void Post() {
    answering_ = false;
    responder_.reset();
    context_.emplace();
    responder_.emplace(&*context_);
    service_->RequestInfer(&*context_, &request_, &*responder_, queue_, queue_, this);
  }

  Service* const service_;
  grpc::ServerCompletionQueue* const queue_;
  const std::optional<grpc::ByteBuffer>* const reply_;
  bool answering_ = false;
  grpc::ByteBuffer request_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> responder_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: echo_server ADDRESS [REPLY_BYTES]\n";
    return 2;
  }
  std::optional<grpc::ByteBuffer> reply;
  if (argc == 3) {
    const grpc::Slice slice(std::string(static_cast<size_t>(std::strtoul(argv[2], nullptr, 10)), '\0'));
    reply.emplace(&slice, 1);
  }
  Service service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(argv[1], grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::cerr << "cannot listen on " << argv[1] << "\n";
    return 1;
  }
  std::cout << "listening on port " << port << std::endl;
  std::vector<std::unique_ptr<Slot>> slots;
  for (int k = 0; k < kSlots; ++k) slots.push_back(std::make_unique<Slot>(&service, queue.get(), &reply));
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<Slot*>(tag)->Proceed(ok);  // until a signal ends the process
}
