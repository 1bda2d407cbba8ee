// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/load.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "client/rnnctl/bench/check.h"
#include "client/rnnctl/bench/event_queue.h"
#include "client/rnnctl/bench/reply.h"

namespace rnnserve::rnnctl::bench {
namespace {

constexpr char kMethod[] = "/rnnserve.v1.Recurrent/Infer";

class GrpcSender final : public Sender {
 public:
  GrpcSender(const CallerOptions& options, const std::vector<std::shared_ptr<grpc::Channel>>& channels,
             const std::vector<std::string>& bodies)
      : options_(options), calls_(options.slots) {
    for (const auto& channel : channels) servers_.push_back(std::make_unique<Server>(channel));
    for (const std::string& body : bodies) {
      const grpc::Slice slice(body);
      requests_.emplace_back(&slice, 1);
      sizes_.push_back(static_cast<int64_t>(body.size()));
    }
    if (options.check) check_.emplace(*options.check);
  }

  ~GrpcSender() override {
    for (Call& call : calls_) {
      if (call.context) call.context->TryCancel();
    }
  }

  absl::Status StartTimer() { return events_.StartTimer(); }

  Time Now() override { return SteadyNow(); }
  std::chrono::nanoseconds CpuTime() override { return ProcessCpuTime(); }

  void Send(size_t slot, size_t request, Time due) override {
    Call& call = calls_[slot];
    call.request = request;
    call.context.emplace();
    call.context->set_wait_for_ready(true);  // a server that went away is waited for, not hammered
    AddToken(*call.context, options_.client);
    if (options_.client.timeout.count() > 0) call.context->set_deadline(ToGpr(due + options_.client.timeout));
    call.server = NextServer();
    ++call.server->calls;
    call.reader = call.server->stub.PrepareUnaryCall(&*call.context, method_, requests_[request], events_.queue());
    call.reader->StartCall();
    call.reader->Finish(&call.reply, &call.status, &call);
  }

  bool Wait(Time until, bool precise, Answer& answer) override {
    const std::optional<EventQueue::Event> event = events_.Wait(until, precise);
    if (event) Read(*static_cast<Call*>(event->tag), answer);
    return event.has_value();
  }

  void Sleep(Time until) override { SleepUntil(until); }

 private:
  struct Server {
    explicit Server(const std::shared_ptr<grpc::Channel>& to) : stub(to) {}
    grpc::GenericStub stub;
    size_t calls = 0;  // under way
  };
  struct Call {
    size_t request = 0;
    Server* server = nullptr;
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer reply;
    grpc::Status status;
  };

  // In turn among those with the fewest.
  Server* NextServer() {
    size_t best = ++turn_ % servers_.size();
    for (size_t k = 0; k < servers_.size(); ++k) {
      const size_t other = (turn_ + k) % servers_.size();
      if (servers_[other]->calls < servers_[best]->calls) best = other;
    }
    return servers_[best].get();
  }

  void Read(Call& call, Answer& answer) {
    --call.server->calls;
    answer.slot = static_cast<size_t>(&call - calls_.data());
    answer.code = call.status.error_code();
    if (call.status.ok()) {
      answer.sent_bytes = sizes_[call.request];
      answer.received_bytes = static_cast<int64_t>(call.reply.Length());
      if (options_.read_times) ReadReply(call, answer);
    } else {
      answer.message = call.status.error_message();
    }
    call.reader.reset();
    call.context.reset();
    call.reply.Clear();
  }

  void ReadReply(Call& call, Answer& answer) {
    if (check_) {
      grpc::Slice whole;
      answer.match = call.reply.DumpToSingleSlice(&whole).ok()
                         ? check_->Check(call.request, std::string(whole.begin(), whole.end()))
                         : Match::kWrong;
    }
    grpc::ProtoBufferReader bytes(&call.reply);
    if (!ReadTimes(bytes, answer)) {
      answer.code = grpc::StatusCode::INTERNAL;
      answer.message = "the reply is no rnnserve.v1.InferResponse";
    }
  }

  const CallerOptions options_;
  const std::string method_ = kMethod;
  std::vector<std::unique_ptr<Server>> servers_;
  size_t turn_ = 0;
  std::vector<grpc::ByteBuffer> requests_;
  std::vector<int64_t> sizes_;  // of requests_
  std::optional<AnswerCheck> check_;
  std::vector<Call> calls_;  // by slot
  EventQueue events_;        // last: its end takes the events of calls_
};

}  // namespace

absl::StatusOr<std::unique_ptr<Sender>> MakeGrpcCaller(const CallerOptions& options,
                                                       const std::vector<std::string>& bodies) {
  const auto channels = ConnectedChannels(options.addresses, options.client);
  if (!channels.ok()) return channels.status();
  auto caller = std::make_unique<GrpcSender>(options, *channels, bodies);
  RETURN_IF_ERROR(caller->StartTimer());
  return std::unique_ptr<Sender>(std::move(caller));
}

}  // namespace rnnserve::rnnctl::bench
