// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_call.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/rejection.h"
#include "base/retry_delay.h"
#include "base/steady_now.h"
#include "server/rpc/status_table.h"

namespace rnnserve {
namespace {

// Of replies that leave together.
constexpr int64_t kMostMessageBytes = 1 << 20;

absl::Status HandedOver() {
  return WithRetryDelay(absl::UnavailableError("this stream has reached its age, and its connection may be told to go; "
                                               "begin another one: what has no answer here was not applied"),
                        absl::Milliseconds(1));
}

}  // namespace

bool StreamSite::Enter(const std::shared_ptr<StreamCall>& call) {
  MutexLock lock(mutex_);
  if (!bound_.Fits(call->caller_id(), 1)) return false;
  bound_.Take(call->caller_id(), 1);
  calls_.insert(call);
  open_.fetch_add(1, std::memory_order_relaxed);
  if (leaves_at_) call->handler_->OnDrain(*leaves_at_);
  return true;
}

void StreamSite::Leave(const std::shared_ptr<StreamCall>& call) {
  MutexLock lock(mutex_);
  calls_.erase(call);
  open_.fetch_sub(1, std::memory_order_relaxed);
  bound_.Release(call->caller_id(), 1);
}

void StreamSite::Drain(absl::Time leaves_at) {
  MutexLock lock(mutex_);
  leaves_at_ = leaves_at;
  for (const std::shared_ptr<StreamCall>& call : calls_) call->handler_->OnDrain(leaves_at);
}

// Reads and writes of a cancelled call fail, and it ends as it would after its caller has gone.
void StreamSite::EndRevoked() {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<StreamCall>& call : calls_) {
    if (call->caller_->revoked.load(std::memory_order_relaxed)) call->context_.TryCancel();
  }
}

void StreamCall::RecordOperation(const absl::Status& status, std::string_view request_id, absl::Time arrived,
                                 const CallMetrics* model) {
  const absl::Duration took = SteadyNow() - arrived;
  method_.operations->Record(status.code(), took);
  if (model != nullptr) model->Record(status.code(), took);
  site_.parts().log->Ended(operation_name_, status, {caller_->tenant, request_id}, context_);
  if (const std::optional<Rejection> why = RejectionOf(status)) site_.parts().requests->RecordRejection(*why);
}

void StreamCall::BeginWork() {
  site_.parts().requests->in_flight().Add(1);
  MutexLock lock(mutex_);
  ++in_flight_;
}

void StreamCall::EndWork() {
  const std::shared_ptr<StreamCall> self = shared_from_this();
  site_.parts().requests->in_flight().Add(-1);
  MutexLock lock(mutex_);
  Ended();
}

void StreamCall::Ended() {
  --in_flight_;
  if (waiting_ && waits_for_->condition()) TakeTurn();
}

void StreamCall::TakeTurn() {
  if (!std::exchange(has_turn_, true)) site_.parts().poller->Enqueue(&turn_);
}

void StreamCall::TurnCame(bool) {
  const std::shared_ptr<StreamCall> self = shared_from_this();
  MutexLock lock(mutex_);
  has_turn_ = false;
  if (!writing_ && !outbox_.empty()) StartWrite();
  Changed(lock);
}

void StreamCall::Changed(MutexLock& lock) {
  if (!waiting_ || !waits_for_->Passes()) return;
  const std::coroutine_handle<> waiting = std::exchange(waiting_, nullptr);
  lock.unlock();
  waiting.resume();
}

bool StreamCall::MayAdd() {
  given_up_ |= broken_;
  return !broken_;
}

void StreamCall::Added(size_t bytes) {
  outbox_bytes_ += static_cast<int64_t>(bytes);
  if (writing_) return;
  TakeTurn();  // what else is answered in the meantime leaves with it
}

void StreamCall::Send(grpc::Slice part, std::optional<ByteBudget::Share> held) {
  MutexLock lock(mutex_);
  if (!MayAdd()) return;
  const size_t bytes = part.size();
  outbox_.Add(std::move(part), std::move(held));
  Added(bytes);
}

void StreamCall::SendLastCopy(std::span<const uint8_t> part, std::optional<ByteBudget::Share> held) {
  site_.parts().requests->in_flight().Add(-1);
  MutexLock lock(mutex_);
  if (MayAdd()) {
    if (outbox_.empty() && !writing_) {
      outbox_.Add(grpc::Slice(part.data(), part.size()), std::move(held));
    } else {
      outbox_.Copy(part, std::move(held));
    }
    Added(part.size());
  } else {
    held.reset();  // while the stream, and with it what it is a share of, is sure to be there
  }
  Ended();
}

PreparationPool::Awaiter StreamCall::ShareMany() {
  const StreamSite::Parts& parts = site_.parts();
  if (!parts.poller->is_this_thread()) return {nullptr, 0};
  const bool is_alone = many_ == site_.many_++;  // no other one's has come since this one's last
  many_ = site_.many_;
  if (is_alone) return {nullptr, 0};
  return parts.preparation->ScheduleToCollect(caller_id_, parts.limits.max_beside);
}

void StreamCall::StartWrite() {
  writing_ = true;
  Outbox::Message message = outbox_.Take(method_.joins_parts ? kMostMessageBytes : 0);
  wire_bytes_ = message.size;
  on_wire_ = std::move(message.held);
  sending_.emplace(*site_.parts().send_watch, &context_);
  stream_.Write(message.bytes, static_cast<void*>(static_cast<CompletionTag*>(&written_)));
}

void StreamCall::SendInitialMetadata() {
  MutexLock lock(mutex_);
  writing_ = true;
  stream_.SendInitialMetadata(static_cast<void*>(static_cast<CompletionTag*>(&written_)));
}

void StreamCall::WriteDone(bool ok) {
  const std::shared_ptr<StreamCall> self = shared_from_this();
  Outbox::Shares gone;
  Outbox unsent;
  MutexLock lock(mutex_);
  sending_.reset();
  gone = std::exchange(on_wire_, {});
  if (!ok) {
    broken_ = true;
    given_up_ |= outbox_bytes_ > 0;
    unsent = std::exchange(outbox_, {});
    outbox_bytes_ = wire_bytes_;
  }
  outbox_bytes_ -= std::exchange(wire_bytes_, 0);
  writing_ = false;
  if (!outbox_.empty()) StartWrite();
  Changed(lock);
}

Task<absl::Status> StreamCall::HandleMessages() {
  absl::Status status;
  while (status.ok()) {
    status = co_await reservation_.Turn(caller_id_);
    if (!status.ok()) break;
    if (!co_await reader_.Next()) break;
    grpc::ByteBuffer message = reader_.TakeMessage();
    auto in_flight = reservation_.MessageCame(static_cast<int64_t>(message.Length()));
    if (caller_->revoked.load(std::memory_order_relaxed)) {
      co_return absl::UnauthenticatedError("the token of this stream is not valid any more");
    }
    try {
      Task<absl::Status> handling = handler_->OnMessage(message, std::move(in_flight));
      status = co_await handling;
    } catch (const std::bad_alloc&) {
      status = OutOfMemory();
    }
  }
  co_return status;
}

CallTask ServeStream(const StreamMethod& method, StreamSite& site) {
  const Poller::QueueGuard guard(*site.parts().poller);
  const auto call = std::make_shared<StreamCall>(method, site);
  const bool arrived = co_await Completion([&](void* tag) {
    call->context_.AsyncNotifyWhenDone(call->end_.tag());
    method.post(&call->context_, &call->stream_, site.parts().poller->queue(), tag);
  });
  if (!arrived) co_return;
  ServeStream(method, site);

  const absl::StatusOr<CallerPtr> caller = site.parts().gate->Admit(call->context_, method.permission);
  absl::Status status = caller.status();
  bool inside = false;
  if (status.ok()) {
    call->caller_ = *caller;
    const std::string& tenant = (*caller)->tenant;
    call->caller_id_ = absl::HashOf(tenant.empty() ? call->context_.peer() : tenant);
    call->handler_ = method.open(call);
    call->SendInitialMetadata();
    inside = site.Enter(call);
    if (!inside) {
      status = absl::ResourceExhaustedError(absl::StrCat("the server has ", site.parts().limits.max_streams,
                                                         " streams open, as many as it takes of all callers or of this "
                                                         "one; come again later"));
    }
  }
  const StreamLimits& limits = site.parts().limits;
  if (inside && std::min(limits.max_age, limits.max_pause) < absl::InfiniteDuration()) {
    call->reader_.StopAt(site.parts().poller->queue(), SteadyNow() + limits.max_age, limits.max_pause);
  }
  if (status.ok()) {
    Task<absl::Status> handling = call->HandleMessages();
    status = co_await handling;
  }
  call->Parsed();
  const bool is_given_up = call->reader_.given_up();
  if (status.ok()) {
    try {
      Task<absl::Status> ending = call->handler_->OnEnd(is_given_up);
      status = co_await ending;
    } catch (const std::bad_alloc&) {
      status = OutOfMemory();
    }
  }
  const bool is_handed_over = status.ok() && is_given_up;
  if (is_handed_over) status = HandedOver();
  co_await call->UntilIdle();
  if (inside) site.Leave(call);
  co_await call->UntilIdle();  // the notice of a drain may have been written meanwhile; no writes after this
  const std::string_view tenant = caller.ok() ? std::string_view((*caller)->tenant) : std::string_view();
  // Before it is over: then its peer is forgotten.
  if (!is_handed_over) site.parts().log->Ended(method.name, status, {tenant, ""}, call->context_);
  co_await Poller::Return(*site.parts().poller);
  co_await Completion([&](void* tag) {
    if (status.ok()) return call->stream_.Finish(grpc::Status::OK, tag);
    const WireError error = ToWireError(status);
    call->stream_.Finish({error.code, error.message, error.details}, tag);
  });
  co_await call->reader_.Over();
  co_await call->end_;
  // A caller may cancel a stream that it no longer needs: that is no error, unless replies were left.
  const bool is_cut = call->GaveUpReplies() || (caller.ok() && (*caller)->revoked.load(std::memory_order_relaxed));
  method.streams->Ended(status.ok() && call->cancelled()->load() && is_cut ? absl::StatusCode::kCancelled
                                                                           : status.code());
  if (const std::optional<Rejection> why = RejectionOf(status); why && !is_handed_over) {
    site.parts().requests->RecordRejection(*why);
  }
  call->handler_.reset();  // it holds the call
}

}  // namespace rnnserve
