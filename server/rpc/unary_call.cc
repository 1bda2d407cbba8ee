// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_call.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/hash/hash.h"
#include "base/out_of_memory.h"
#include "base/rejection.h"
#include "base/steady_now.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/status_table.h"

namespace rnnserve {
namespace {

// By the monotonic clock: when the machine's clock is set, gRPC and Abseil notice it at different times, and a deadline
// written by one and read by the other would be off by the difference.
absl::Duration TimeLeft(const grpc::ServerContext& context) {
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) return absl::InfiniteDuration();
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace

UnaryCall::UnaryCall(const UnaryMethod& method, const UnarySite& site)
    : max_duration_(site.max_duration), preparation_(site.preparation), reservation_(*site.line, *method.sizes) {}

void UnaryCall::Arrived() {
  arrived_ = SteadyNow();
  deadline_ = arrived_ + TimeLeft(context_);
  if (max_duration_ != absl::InfiniteDuration()) deadline_ = std::min(deadline_, arrived_ + max_duration_);
}

absl::Status UnaryCall::Parse(google::protobuf::Message& message) {
  absl::Status status = ParseBytes(request_, message);
  request_.Clear();
  reservation_.Parsed();
  return status;
}

Task<absl::Status> UnaryCall::Receive(const UnaryMethod& method, UnarySite& site) {
  if (absl::Status open = site.admission->IsOpen(method.while_draining); !open.ok()) co_return open;
  absl::Status turn = co_await reservation_.Turn(caller_id_);
  if (turn.ok()) turn = StillWanted();
  if (!turn.ok()) co_return turn;
  const bool whole = co_await Completion([&](void* tag) { reader_.Read(&request_, tag); });
  if (!whole) {
    broke_off_ = true;
    co_return absl::InvalidArgumentError("the call brought no message");
  }
  request_bytes_ = static_cast<int64_t>(request_.Length());
  co_return reservation_.Came(request_bytes_, method.while_draining);
}

void UnaryCall::SetCaller(CallerPtr caller) {
  caller_ = std::move(caller);
  if (caller_->tenant.empty()) peer_ = context_.peer();
  caller_id_ = absl::HashOf(caller_->tenant.empty() ? peer_ : caller_->tenant);
}

absl::Status UnaryCall::StillWanted() const {
  if (deadline_ != absl::InfiniteFuture() && SteadyNow() >= deadline_) {
    return absl::DeadlineExceededError("the deadline passed before the request was looked at");
  }
  if (cancelled()->load(std::memory_order_relaxed)) return absl::CancelledError("the caller cancelled the request");
  return absl::OkStatus();
}

void UnaryCall::Finish(UnaryReply reply, void* tag) {
  if (reply.status.ok()) {
    reader_.Finish(reply.body, grpc::Status::OK, tag);
    return;
  }
  const WireError error = ToWireError(reply.status);
  if (error.retry_after_ms) {
    context_.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(*error.retry_after_ms));
  }
  reader_.FinishWithError({error.code, error.message, error.details}, tag);
}

CallTask ServeUnary(const UnaryMethod& method, UnarySite& site) {
  const Poller::QueueGuard guard(*site.poller);
  UnaryCall call(method, site);
  const bool arrived = co_await Completion([&](void* tag) {
    call.context_.AsyncNotifyWhenDone(call.end_.tag());
    method.post(&call.context_, &call.reader_, site.poller->queue(), tag);
  });
  if (!arrived) co_return;
  ServeUnary(method, site);
  call.Arrived();
  site.metrics->in_flight().Add(1);

  UnaryReply reply;
  absl::StatusOr<CallerPtr> caller = site.gate->Admit(call.context_, method.permission);
  reply.status = caller.status();
  if (caller.ok()) {
    call.SetCaller(*std::move(caller));
    Task<absl::Status> receiving = call.Receive(method, site);
    reply.status = co_await receiving;
  }
  const bool inside = reply.status.ok();
  if (inside) {
    if (call.request_bytes() > method.max_poller_bytes || method.max_poller_bytes == 0) {
      co_await call.LeavePoller();
      reply.status = call.StillWanted();  // may have waited there
    }
    if (reply.status.ok()) {
      try {
        Task<UnaryReply> handling = method.handle(call);
        reply = co_await handling;
      } catch (const std::bad_alloc&) {
        reply = {OutOfMemory()};
      }
    }
  }
  call.request_.Clear();
  const auto record = [&](const absl::Status& status) {
    const absl::Duration took = SteadyNow() - call.arrived_;
    method.metrics->Record(status.code(), took);
    if (call.model_ != nullptr) call.model_->Record(status.code(), took);
    site.log->Ended(method.name, status, call.LoggedAs(), call.context_);
    if (const std::optional<Rejection> why = RejectionOf(status)) site.metrics->RecordRejection(*why);
  };
  const absl::Status status = reply.status;
  if (!call.broke_off_) record(status);
  const auto reply_bytes = static_cast<int64_t>(reply.body.Length());
  const std::optional<ByteBudget::Share> held = std::move(reply.held);
  {
    const SendWatch::Sending sending(*site.send_watch, &call.context_);
    if (!site.poller->MayAnswerHere()) co_await Poller::Return(*site.poller);
    co_await Completion([&](void* tag) { call.Finish(std::move(reply), tag); });
  }
  co_await call.end_;
  // Whether its caller went away, or gRPC refused its message for its size, is known only now.
  const bool is_cut_off = call.broke_off_ && call.cancelled()->load();
  if (is_cut_off) site.log->BrokeOff(method.name, call.LoggedAs(), call.context_);
  if (call.broke_off_) record(is_cut_off ? absl::CancelledError("the call broke off") : status);
  site.metrics->in_flight().Add(-1);
  if (inside) method.sizes->SawReply(call.request_bytes(), reply_bytes, SteadyNow());
}

}  // namespace rnnserve
