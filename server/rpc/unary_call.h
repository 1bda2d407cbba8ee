// SPDX-License-Identifier: Apache-2.0
// One unary call on the asynchronous server, as raw bytes, from its slot to its reply.
//
//   UnaryMethod method = {"Recurrent.Infer", PostUnary(service, "/rnnserve.v1.Recurrent/Infer"),
//                         [&](UnaryCall& call) { return Infer(call); }};
//   ServeUnary(method, site);      // once for each posted slot
//
// ServeUnary is the one place that posts slots, admits calls and answers them; a method only turns a request into an
// UnaryReply. It may run on any thread; the call lives until the reply has been sent or the caller has disconnected.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/completion.h"
#include "server/admission/byte_budget.h"
#include "server/admission/call_admission.h"
#include "server/admission/call_sizes.h"
#include "server/admission/message_line.h"
#include "server/admission/send_watch.h"
#include "server/rpc/call_end.h"
#include "server/rpc/call_log.h"
#include "server/rpc/poller.h"
#include "server/rpc/preparation_pool.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/task.h"
#include "server/security/gate.h"
#include "server/telemetry/request_metrics.h"

namespace rnnserve {

// The reply's bytes, or an error.
struct UnaryReply {
  absl::Status status;
  grpc::ByteBuffer body = {};
  // Released once the reply has been sent, or the caller has disconnected.
  std::optional<ByteBudget::Share> held = {};
};

class UnaryCall {
 public:
  UnaryCall(const struct UnaryMethod& method, const struct UnarySite& site);
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // The request's bytes, which are gone afterwards.
  absl::Status Parse(google::protobuf::Message& message);
  int64_t request_bytes() const { return request_bytes_; }
  // When its headers came.
  absl::Time arrived() const { return arrived_; }
  // The caller's, or the server's own bound if that is earlier.
  absl::Time deadline() const { return deadline_; }
  // The caller's name for the request, for the log.
  void set_request_id(std::string id) { request_id_ = std::move(id); }
  // The model whose requests count this call, besides its method; null: none.
  void set_model(const CallMetrics* calls) { model_ = calls; }
  // The caller, set before the method runs.
  const CallerPtr& caller() const { return caller_; }
  // The caller's address.
  std::string peer() const { return peer_.empty() ? context_.peer() : peer_; }
  // The caller as bounds and queues count it: a hash of its tenant, or of its address where the server has no tokens.
  uint64_t caller_id() const { return caller_id_; }
  // Becomes true when the caller cancels, disconnects or its deadline passes.
  const std::shared_ptr<std::atomic<bool>>& cancelled() const { return end_.cancelled(); }
  // CANCELLED or DEADLINE_EXCEEDED if the caller no longer waits for the reply.
  absl::Status StillWanted() const;

  // Await this before long work: it must not block the poller thread.
  PreparationPool::Awaiter LeavePoller() {
    return PreparationPool::Awaiter(std::exchange(on_poller_, false) ? preparation_ : nullptr, caller_id_);
  }

 private:
  friend CallTask ServeUnary(const struct UnaryMethod& method, struct UnarySite& site);

  void Arrived();
  // Reads the message, once there is room for it. On the poller thread.
  Task<absl::Status> Receive(const struct UnaryMethod& method, struct UnarySite& site);
  void SetCaller(CallerPtr caller);
  LoggedCaller LoggedAs() const {
    return {caller_ == nullptr ? "" : std::string_view(caller_->tenant), request_id_, peer_};
  }
  void Finish(UnaryReply reply, void* tag);

  const absl::Duration max_duration_;
  PreparationPool* const preparation_;
  bool on_poller_ = true;
  grpc::ServerContext context_;
  RawReader reader_{&context_};
  grpc::ByteBuffer request_;
  Reservation reservation_;
  bool broke_off_ = false;  // before its message had come
  CallerPtr caller_;
  std::string peer_;  // of a caller without a tenant; its context forgets it when the call is over
  uint64_t caller_id_ = 0;
  std::string request_id_;
  const CallMetrics* model_ = nullptr;
  int64_t request_bytes_ = 0;
  absl::Time arrived_;
  absl::Time deadline_;
  CallEnd end_{context_};
};

// One method of a service.
struct UnaryMethod {
  std::string name;  // Service.Method, as metrics and logs say it
  // Asks for a call's headers: PostUnary.
  std::function<void(grpc::ServerContext*, RawReader*, grpc::ServerCompletionQueue*, void* tag)> post;
  std::function<Task<UnaryReply>(UnaryCall&)> handle;
  // Requests of more bytes are handled on the preparation pool; 0: all.
  int64_t max_poller_bytes = 1 << 20;
  Permission permission = Permission::kUse;
  // Admitted while the server drains, to fetch what would be lost with it.
  bool while_draining = false;
  std::shared_ptr<const CallMetrics> metrics = nullptr;  // set before the method is served
  std::shared_ptr<CallSizes> sizes = std::make_shared<CallSizes>();
};

// The `post` of a method that is called by this path, which lives as long as the service.
inline auto PostUnary(RawService& service, const char* path) {
  return [&service, index = service.AddUnary(path)](auto... slot) { service.RequestUnary(index, slot...); };
}

// What all calls share.
struct UnarySite {
  Poller* poller;
  Gate* gate;
  CallAdmission* admission;
  MessageLine* line;
  PreparationPool* preparation;
  SendWatch* send_watch;
  const RequestMetrics* metrics;
  CallLog* log;
  absl::Duration max_duration;
};

// Posts one slot, serves the call that takes it, and posts the next slot as soon as this one is taken. Ends with the
// server. `method` and `site` outlive it.
CallTask ServeUnary(const UnaryMethod& method, UnarySite& site);

}  // namespace rnnserve
