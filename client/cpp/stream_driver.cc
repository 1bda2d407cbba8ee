// SPDX-License-Identifier: Apache-2.0
// What is usual. What recovers one is in stream_driver_recovery.cc.
#include "client/cpp/stream_driver.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "client/cpp/verdict.h"

namespace rnnserve::client {

StreamDriver::StreamDriver(Candidates candidates, v1::OpenRequest request, const StreamOptions& options,
                           Session session)
    : request_(std::move(request)),
      options_(options),
      fingerprint_(session.fingerprint),
      candidates_(std::move(candidates)),
      route_(std::move(session.route)),
      agreed_(session.agreed),
      journal_({static_cast<size_t>(options.max_in_flight), options.max_kept_bytes,
                static_cast<uint64_t>(options.checkpoint_every)}),
      session_server_(session.server),
      last_session_server_(session.server),
      backoff_(std::random_device()()) {
  const Time now = Clock::now();
  look_at_ = recover_at_ = pause_until_ = last_message_at_ = now;
  journal_.Begin(std::move(session.key), session.last_applied, agreed_, session.origin, now, session.position_offset);
  thread_ = std::thread([this] { Loop(); });
}

StreamDriver::~StreamDriver() {
  Lock lock(mutex_);
  stopping_ = true;
  for (const auto& wire : wires_) {
    if (const auto open = wire.lock()) open->Cancel();
  }
  if (opening_ != nullptr) opening_->TryCancel();
  changed_.notify_all();
  lock.unlock();
  thread_.join();
  lock.lock();
  changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_wires_ == 0; });
  std::map<StreamJournal::Ticket, Done> waiting = std::exchange(waiting_, {});
  lock.unlock();
  for (auto& [ticket, done] : waiting) {
    done(absl::CancelledError("the stream was let go before the operation was answered"));
  }
}

void StreamDriver::Run(v1::Operation operation, Done done) {
  const auto bytes = static_cast<int64_t>(operation.ByteSizeLong());
  Lock lock(mutex_);
  while (failed_.ok() && !close_ && !journal_.HasRoom(bytes)) {
    journal_.MakeRoom(Clock::now());
    Pump(Clock::now());
    room_.wait(lock);
  }
  if (!failed_.ok() || close_) {
    const absl::Status status =
        !failed_.ok() ? failed_ : absl::FailedPreconditionError("the stream is closed; open another");
    lock.unlock();
    return done(status);
  }
  if (operation.has_rewind() && !journal_.HasCheckpoint(operation.rewind().checkpoint())) {
    lock.unlock();
    return done(WithReason(absl::NotFoundError(absl::StrCat("the stream has no checkpoint ",
                                                            operation.rewind().checkpoint(), "; Checkpoint makes one")),
                           "CHECKPOINT_UNKNOWN"));
  }
  const bool closes = operation.has_close();
  const Time now = Clock::now();
  const StreamJournal::Ticket ticket = journal_.Add(std::move(operation), now);
  if (closes) close_ = ticket;
  waiting_.emplace(ticket, std::move(done));
  Pump(now);
}

void StreamDriver::Pump(Time now) {
  if (wire_ == nullptr || now < pause_until_) return;
  if (!journal_.IsWaiting()) last_message_at_ = now;  // nothing was due until now
  std::vector<v1::Operation> operations = journal_.Take(now);
  if (!operations.empty()) wire_->Send(std::move(operations));
}

void StreamDriver::OnTaken(uint64_t id) {
  MutexLock lock(mutex_);
  if (id != wire_id_ || wire_ == nullptr) return;
  broken_since_.reset();
  if (journal_.IsDurable() && taken_at_ && taken_at_ != session_server_) ++repairs_.takeovers;
  taken_at_ = session_server_;
  reopen_id_.clear();
  reopen_route_.clear();
  without_engine_.clear();
  // A connection that breaks as soon as it carries something is not tried faster for having been made.
  if (!journal_.IsWaiting()) tries_ = 0;
}

void StreamDriver::OnMessage(uint64_t id, v1::StreamResponse& message) {
  Calls calls;
  {
    MutexLock lock(mutex_);
    if (id != wire_id_ || wire_ == nullptr) return;
    last_message_at_ = Clock::now();
    if (message.has_drain()) journal_.Drain();
    for (v1::OperationReply& reply : *message.mutable_replies()) {
      if (wire_ == nullptr) break;
      tries_ = 0;
      broken_since_.reset();
      Handle(journal_.Answer(std::move(reply)), calls);
    }
    Pump(last_message_at_);
    room_.notify_all();
    if (wire_ == nullptr || journal_.IsCarriedOver() || last_message_at_ < pause_until_) changed_.notify_all();
  }
  for (auto& call : calls) call();
}

void StreamDriver::Handle(StreamJournal::Next next, Calls& calls) {
  for (StreamJournal::FinishedOperation& operation : next.finished) {
    drains_ = 0;
    auto waiting = waiting_.extract(operation.ticket);
    if (waiting.empty()) continue;
    if (close_ == operation.ticket) {
      closed_ = operation.status.ok();
      if (!closed_) close_.reset();
    }
    std::string route = operation.reply.has_fork() ? route_ : "";
    absl::StatusOr<Answered> answered = Answered{std::move(operation.reply), last_session_server_, std::move(route)};
    if (!operation.status.ok()) answered = std::move(operation.status);
    calls.push_back(
        [done = std::move(waiting.mapped()), answered = std::move(answered)]() mutable { done(std::move(answered)); });
  }
  if (next.pause) pause_until_ = Clock::now() + *next.pause;
  if (!next.over.ok()) return Fail(std::move(next.over), calls);
  if (!next.lost.ok()) return Lose(std::move(next.lost), calls);
  if (closed_ && wire_ != nullptr) wire_->Finish();
}

void StreamDriver::OnEnd(uint64_t id, absl::Status status, std::shared_ptr<OperationStream> stream) {
  Calls calls;
  {
    MutexLock lock(mutex_);
    if (id == wire_id_ && wire_ != nullptr) {
      DropWire();
      last_error_ = status;
      if (!IsTransient(status) && !closed_) Fail(std::move(status), calls);
    }
  }
  for (auto& call : calls) call();
  MutexLock lock(mutex_);
  ended_.push_back(std::move(stream));
  --open_wires_;
  changed_.notify_all();
}

StreamJournal::Agreed StreamDriver::agreed() const {
  MutexLock lock(mutex_);
  return agreed_;
}

std::string StreamDriver::key() const {
  MutexLock lock(mutex_);
  return journal_.session();
}

StreamDriver::Candidates StreamDriver::candidates() const {
  MutexLock lock(mutex_);
  return candidates_;
}

std::string StreamDriver::address() const {
  MutexLock lock(mutex_);
  return candidates_.servers[last_session_server_];
}

StreamRepairs StreamDriver::repairs() const {
  MutexLock lock(mutex_);
  return repairs_;
}

}  // namespace rnnserve::client
