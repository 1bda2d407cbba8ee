// SPDX-License-Identifier: Apache-2.0
// What gRPC alone costs: answers every rnnserve.v1.Recurrent/Infer with bytes, and every message of Recurrent/Stream
// with its own, on one thread that polls one completion queue, with raw methods. Nothing is parsed. The yardstick of
// docs/benchmarks.md, driven by `rnnctl bench --echo`.
//
//   echo_server ADDRESS [REPLY_BYTES]     of Infer; without REPLY_BYTES a reply is the request's own bytes
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rnnserve/v1/recurrent.grpc.pb.h"

namespace {

using rnnserve::v1::Recurrent;
using Service = Recurrent::WithRawMethod_Infer<Recurrent::WithRawMethod_Stream<Recurrent::Service>>;

constexpr int kSlots = 256;  // calls that may arrive at the same moment
constexpr int kStreams = 16;

// What an event of the queue is tagged with.
class Tag {
 public:
  virtual ~Tag() = default;
  virtual void Proceed(bool ok) = 0;
};

// One posted slot; serves one call after another.
class Slot final : public Tag {
 public:
  Slot(Service* service, grpc::ServerCompletionQueue* queue, const std::optional<grpc::ByteBuffer>* reply)
      : service_(service), queue_(queue), reply_(reply) {
    Post();
  }

  void Proceed(bool ok) override {
    if (answering_ || !ok) return Post();
    answering_ = true;
    responder_->Finish(*reply_ ? **reply_ : request_, grpc::Status::OK, static_cast<Tag*>(this));
  }

 private:
  void Post() {
    answering_ = false;
    responder_.reset();
    context_.emplace();
    responder_.emplace(&*context_);
    service_->RequestInfer(&*context_, &request_, &*responder_, queue_, queue_, static_cast<Tag*>(this));
  }

  Service* const service_;
  grpc::ServerCompletionQueue* const queue_;
  const std::optional<grpc::ByteBuffer>* const reply_;
  bool answering_ = false;
  grpc::ByteBuffer request_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> responder_;
};

// One posted slot for streams; serves one after another. Reads and writes side by side.
class Stream {
 public:
  Stream(Service* service, grpc::ServerCompletionQueue* queue) : service_(service), queue_(queue) { Post(); }

 private:
  class Event final : public Tag {
   public:
    Event(Stream* stream, void (Stream::*proceed)(bool)) : stream_(stream), proceed_(proceed) {}
    void Proceed(bool ok) override { (stream_->*proceed_)(ok); }

   private:
    Stream* stream_;
    void (Stream::*proceed_)(bool);
  };

  void Post() {
    writing_ = over_ = false;
    stream_.reset();
    context_.emplace();
    stream_.emplace(&*context_);
    service_->RequestStream(&*context_, &*stream_, queue_, queue_, static_cast<Tag*>(&read_));
    incoming_.Clear();
    began_ = false;
  }
  void HasRead(bool ok) {
    if (!ok) {
      over_ = true;
      return EndIfQuiet();
    }
    if (began_) outgoing_.push_back(incoming_);
    began_ = true;
    stream_->Read(&incoming_, static_cast<Tag*>(&read_));
    Write();
  }
  void Write() {
    if (writing_ || outgoing_.empty()) return;
    writing_ = true;
    stream_->Write(outgoing_.front(), static_cast<Tag*>(&written_));
    outgoing_.pop_front();
  }
  void Written(bool ok) {
    writing_ = false;
    if (!ok) outgoing_.clear();
    Write();
    if (over_) EndIfQuiet();
  }
  void EndIfQuiet() {
    if (!writing_) stream_->Finish(grpc::Status::OK, static_cast<Tag*>(&finished_));
  }
  void Finished(bool) { Post(); }

  Service* const service_;
  grpc::ServerCompletionQueue* const queue_;
  Event read_{this, &Stream::HasRead};
  Event written_{this, &Stream::Written};
  Event finished_{this, &Stream::Finished};
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  grpc::ByteBuffer incoming_;
  std::deque<grpc::ByteBuffer> outgoing_;
  bool began_ = false;  // a caller has taken the slot
  bool writing_ = false;
  bool over_ = false;
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
  std::vector<std::unique_ptr<Stream>> streams;
  for (int k = 0; k < kStreams; ++k) streams.push_back(std::make_unique<Stream>(&service, queue.get()));
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed(ok);  // until a signal ends the process
}
