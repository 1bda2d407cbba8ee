// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/event_queue.h"

#include <sys/resource.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "client/cpp/connection.h"

namespace rnnserve::rnnctl::bench {
namespace {

// Beyond the precise timer's moment, so that it decides; and before a wait would be noticed as hanging.
constexpr Time kSlack = std::chrono::milliseconds(5);

std::chrono::nanoseconds ToChrono(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

}  // namespace

EventQueue::~EventQueue() {
  timer_.reset();  // no tick after the queue's shutdown
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) continue;
}

absl::Status EventQueue::StartTimer() {
  ASSIGN_OR_RETURN(timer_, PreciseTimer::Create([this] { Tick(); }));
  return absl::OkStatus();
}

// On the timer's thread: an event for the thread that waits on the queue. The alarm is free again once its event was
// taken.
void EventQueue::Tick() {
  if (!ticking_.exchange(true)) alarm_.Set(&queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), &alarm_);
}

std::optional<EventQueue::Event> EventQueue::Wait(Time until, bool precise) {
  Time deadline = until;
  if (precise) {
    timer_->Arm(until);
    deadline += kSlack;
  }
  Event event = {};
  if (queue_.AsyncNext(&event.tag, &event.ok, ToGpr(deadline)) != grpc::CompletionQueue::GOT_EVENT) return std::nullopt;
  if (event.tag != &alarm_) return event;
  ticking_.store(false);
  return std::nullopt;
}

Time SteadyNow() { return std::chrono::steady_clock::now().time_since_epoch(); }

void SleepUntil(Time moment) { std::this_thread::sleep_until(std::chrono::steady_clock::time_point(moment)); }

std::chrono::nanoseconds ProcessCpuTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return ToChrono(usage.ru_utime) + ToChrono(usage.ru_stime);
}

gpr_timespec ToGpr(Time moment) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(moment);
  return {seconds.count(), static_cast<int32_t>((moment - seconds).count()), GPR_CLOCK_MONOTONIC};
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectedChannel(const std::string& address,
                                                                const client::ClientOptions& options) {
  ASSIGN_OR_RETURN(client::Connection connection, client::Connection::Make(address, options));
  std::shared_ptr<grpc::Channel> channel = std::move(connection.channel);
  const std::chrono::nanoseconds patience = options.timeout.count() > 0 ? options.timeout : std::chrono::minutes(1);
  const gpr_timespec deadline = ToGpr(SteadyNow() + patience);
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
         channel->WaitForStateChange(state, deadline)) {
    state = channel->GetState(/*try_to_connect=*/true);
  }
  if (state == GRPC_CHANNEL_READY) return channel;
  return WithReason(absl::UnavailableError(absl::StrCat("cannot connect to ", address)), client::kCannotConnect);
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> ConnectedChannels(const std::vector<std::string>& addresses,
                                                                              const client::ClientOptions& options) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& address : addresses) {
    ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, ConnectedChannel(address, options));
    channels.push_back(std::move(channel));
  }
  return channels;
}

void AddToken(grpc::ClientContext& context, const client::ClientOptions& options) {
  const std::string& token = options.credentials.token;
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
}

}  // namespace rnnserve::rnnctl::bench
