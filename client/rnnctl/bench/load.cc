// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/load.h"

#include <grpcpp/alarm.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <sys/resource.h>

#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/rnnctl/bench/check.h"
#include "client/rnnctl/bench/reply.h"
#include "client/rnnctl/bench/timer.h"
#include "engine/op/field_error.h"

namespace rnnserve::rnnctl::bench {
namespace {

constexpr char kMethod[] = "/rnnserve.v1.Recurrent/Infer";
// Beyond the precise timer's moment, so that it decides; and before a wait would be noticed as hanging.
constexpr Time kSlack = std::chrono::milliseconds(5);

gpr_timespec ToGpr(Time moment) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(moment);
  return {seconds.count(), static_cast<int32_t>((moment - seconds).count()), GPR_CLOCK_MONOTONIC};
}

Time SteadyNow() { return std::chrono::steady_clock::now().time_since_epoch(); }

std::chrono::nanoseconds ToChrono(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

class GrpcCaller final : public Caller {
 public:
  GrpcCaller(const CallerOptions& options, std::shared_ptr<grpc::Channel> channel,
             const std::vector<std::string>& bodies)
      : options_(options), channel_(std::move(channel)), stub_(channel_), calls_(options.slots) {
    for (const std::string& body : bodies) {
      const grpc::Slice slice(body);
      requests_.emplace_back(&slice, 1);
      sizes_.push_back(static_cast<int64_t>(body.size()));
    }
    if (options.check) check_.emplace(bodies.size(), *options.check);
  }

  ~GrpcCaller() override {
    timer_.reset();  // no tick after the queue's shutdown
    for (Call& call : calls_) {
      if (call.context) call.context->TryCancel();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) continue;
  }

  absl::Status StartTimer() {
    absl::StatusOr<std::unique_ptr<PreciseTimer>> timer = PreciseTimer::Create([this] { Tick(); });
    if (!timer.ok()) return timer.status();
    timer_ = *std::move(timer);
    return absl::OkStatus();
  }

  Time Now() override { return SteadyNow(); }

  std::chrono::nanoseconds CpuTime() override {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return ToChrono(usage.ru_utime) + ToChrono(usage.ru_stime);
  }

  void Send(size_t slot, size_t request) override {
    Call& call = calls_[slot];
    call.request = request;
    call.context.emplace();
    call.context->set_wait_for_ready(true);  // a server that went away is waited for, not hammered
    if (options_.client.timeout.count() > 0) call.context->set_deadline(ToGpr(SteadyNow() + options_.client.timeout));
    call.reader = stub_.PrepareUnaryCall(&*call.context, method_, requests_[request], &queue_);
    call.reader->StartCall();
    call.reader->Finish(&call.reply, &call.status, &call);
  }

  bool Wait(Time until, bool precise, Answer& answer) override {
    Time deadline = until;
    if (precise) {
      timer_->Arm(until);
      deadline += kSlack;
    }
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, ToGpr(deadline)) != grpc::CompletionQueue::GOT_EVENT) return false;
    if (tag == &alarm_) {
      ticking_.store(false);
      return false;
    }
    Read(*static_cast<Call*>(tag), answer);
    return true;
  }

 private:
  struct Call {
    size_t request = 0;
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer reply;
    grpc::Status status;
  };

  // On the timer's thread: an event for whoever waits on the queue. The alarm is free again once its event was taken.
  void Tick() {
    if (!ticking_.exchange(true)) alarm_.Set(&queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), &alarm_);
  }

  void Read(Call& call, Answer& answer) {
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
      answer.verdict = call.reply.DumpToSingleSlice(&whole).ok()
                           ? check_->Check(call.request, std::string(whole.begin(), whole.end()))
                           : Verdict::kWrong;
    }
    grpc::ProtoBufferReader bytes(&call.reply);
    if (!ReadTimes(bytes, answer)) {
      answer.code = grpc::StatusCode::INTERNAL;
      answer.message = "the reply is no rnnserve.v1.InferResponse";
    }
  }

  const CallerOptions options_;
  const std::string method_ = kMethod;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  std::vector<grpc::ByteBuffer> requests_;
  std::vector<int64_t> sizes_;  // of requests_
  std::optional<AnswerCheck> check_;
  grpc::CompletionQueue queue_;
  std::vector<Call> calls_;  // by slot
  grpc::Alarm alarm_;
  std::atomic<bool> ticking_{false};     // the alarm is set or its event not yet taken
  std::unique_ptr<PreciseTimer> timer_;  // last: its thread uses the above
};

// A dead address is told at once, a slow one within the timeout.
absl::Status Connect(grpc::Channel& channel, const CallerOptions& options) {
  const std::chrono::nanoseconds patience =
      options.client.timeout.count() > 0 ? options.client.timeout : std::chrono::minutes(1);
  const gpr_timespec deadline = ToGpr(SteadyNow() + patience);
  grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
         channel.WaitForStateChange(state, deadline)) {
    state = channel.GetState(/*try_to_connect=*/true);
  }
  if (state == GRPC_CHANNEL_READY) return absl::OkStatus();
  return WithReason(absl::UnavailableError(absl::StrCat("cannot connect to ", options.address)),
                    client::kCannotConnect);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Caller>> MakeGrpcCaller(const CallerOptions& options,
                                                       const std::vector<std::string>& bodies) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.client.max_receive_bytes);
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
  const absl::Status connected = Connect(*channel, options);
  if (!connected.ok()) return connected;
  auto caller = std::make_unique<GrpcCaller>(options, std::move(channel), bodies);
  const absl::Status timing = caller->StartTimer();
  if (!timing.ok()) return timing;
  return std::unique_ptr<Caller>(std::move(caller));
}

}  // namespace rnnserve::rnnctl::bench
