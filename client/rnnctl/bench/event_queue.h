// SPDX-License-Identifier: Apache-2.0
// A gRPC completion queue that one thread waits on until a moment, to within tens of microseconds if asked (gRPC's own
// waits are rounded up to milliseconds); and what every caller over gRPC needs besides: a channel that is connected.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/rnnctl/bench/sender.h"
#include "client/rnnctl/bench/timer.h"

namespace rnnserve::rnnctl::bench {

class EventQueue {
 public:
  EventQueue() = default;
  // Whatever uses the queue has been cancelled: its events are taken and dropped.
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  absl::Status StartTimer();
  // Nothing: no event came until then. May return somewhat earlier.
  struct Event {
    void* tag;
    bool ok;
  };
  std::optional<Event> Wait(Time until, bool precise);

  grpc::CompletionQueue* queue() { return &queue_; }

 private:
  void Tick();

  grpc::CompletionQueue queue_;
  grpc::Alarm alarm_;
  std::atomic<bool> ticking_{false};     // the alarm is set or its event not yet taken
  std::unique_ptr<PreciseTimer> timer_;  // last: its thread uses the above
};

Time SteadyNow();
void SleepUntil(Time moment);
// Of this process, all threads, user and system.
std::chrono::nanoseconds ProcessCpuTime();
gpr_timespec ToGpr(Time moment);

// kCannotConnect if it cannot connect: at once for a dead address, within the timeout for a slow one.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectedChannel(const std::string& address,
                                                                const client::ClientOptions& options);
// To each of them, in their order.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> ConnectedChannels(const std::vector<std::string>& addresses,
                                                                              const client::ClientOptions& options);

// Of the credentials, to the context of every call over such a channel.
void AddToken(grpc::ClientContext& context, const client::ClientOptions& options);

}  // namespace rnnserve::rnnctl::bench
