// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/stream_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/operation_fate.h"
#include "client/cpp/status.h"
#include "engine/op/field_error.h"

namespace rnnserve::client {
namespace {

constexpr auto kPause = std::chrono::milliseconds(50);  // where the server gives no advice

bool IsChange(const v1::Operation& operation) {
  return !operation.has_get_state() && !operation.has_fork() && !operation.has_checkpoint();
}

int64_t Size(const google::protobuf::MessageLite& message) { return static_cast<int64_t>(message.ByteSizeLong()); }

int64_t SizeOf(const std::optional<v1::StateTensors>& tensors) { return tensors ? Size(*tensors) : 0; }

}  // namespace

bool StreamLedger::HasRoom(int64_t bytes) const {
  return unanswered_ < limits_.max_in_flight && (items_.empty() || kept_bytes_ + bytes <= limits_.max_kept_bytes);
}

bool StreamLedger::IsSnapshotDue() const {
  return limits_.checkpoint_every > 0 && requests_ == 0 && changes_since_request_ > 0 &&
         (changes_since_request_ >= limits_.checkpoint_every || kept_bytes_ > limits_.max_kept_bytes / 2);
}

void StreamLedger::MakeRoom(Time now) {
  if (limits_.checkpoint_every > 0 && requests_ == 0 && changes_since_request_ > 0) {
    AskForSnapshot(items_.end(), next_index_ - 1, now);
  }
}

StreamLedger::Place StreamLedger::AskForSnapshot(Place before, uint64_t index, Time now) {
  Item item;
  item.purpose = Purpose::kSnapshot;
  item.index = index;
  item.added = now;
  item.body.mutable_get_state();
  ++requests_;
  if (before == items_.end()) changes_since_request_ = 0;
  return items_.insert(before, std::move(item));
}

StreamLedger::Ticket StreamLedger::Add(v1::Operation body, Time now) {
  Item item;
  item.ticket = next_ticket_++;
  item.is_change = IsChange(body);
  item.bytes = Size(body);
  item.added = now;
  if (item.is_change) {
    item.index = next_index_++;
    ++changes_since_request_;
  } else {
    item.index = next_index_ - 1;
  }
  if (body.has_checkpoint()) {
    item.purpose = Purpose::kCheckpoint;
    item.checkpoint = std::make_shared<Checkpoint>();
    std::shared_ptr<Checkpoint>& current = checkpoints_[body.checkpoint().name()];
    if (current != nullptr) checkpoint_bytes_ -= Size(current->tensors);
    current = item.checkpoint;
  } else if (body.has_rewind()) {
    item.checkpoint = checkpoints_[body.rewind().checkpoint()];
  }
  item.body = std::move(body);
  kept_bytes_ += item.bytes;
  ++unanswered_;
  const Ticket ticket = item.ticket;
  items_.push_back(std::move(item));
  if (IsSnapshotDue()) AskForSnapshot(items_.end(), next_index_ - 1, now);
  return ticket;
}

void StreamLedger::Begin(std::string session, uint64_t last_applied, int32_t agreed_in_flight, Origin origin, Time now,
                         uint64_t position_offset) {
  session_ = std::move(session);
  first_number_ = last_applied + 1;
  position_offset_ = position_offset;
  agreed_in_flight_ = static_cast<size_t>(std::max(agreed_in_flight, 1));
  if (origin == Origin::kAsOpened) {
    SetSnapshot(Snapshot{});
  } else if (limits_.checkpoint_every > 0) {
    AskForSnapshot(items_.begin(), 0, now);
  }
}

void StreamLedger::BeginAgain(std::string session, int32_t agreed_in_flight) {
  Detach();
  session_ = std::move(session);
  agreed_in_flight_ = static_cast<size_t>(std::max(agreed_in_flight, 1));
  first_index_ = snapshot_->index + 1;
  first_number_ = 1;
  applied_index_ = snapshot_->index;
  position_offset_ = snapshot_->position;
  for (Item& item : items_) {
    item.phase = Phase::kUnsent;
    item.tried = false;
  }
}

void StreamLedger::Detach() {
  draining_ = false;
  Unsend(items_.begin());
}

void StreamLedger::Unsend(Place from) {
  for (; from != items_.end(); ++from) {
    if (from->phase != Phase::kSent) continue;
    from->phase = Phase::kUnsent;
    sent_.erase(from->sending);
  }
}

bool StreamLedger::IsCarriedOver() const {
  return draining_ && sent_.empty() && snapshot_ && snapshot_->index == applied_index_;
}

std::optional<StreamLedger::Time> StreamLedger::OldestUnanswered() const {
  for (const Item& item : items_) {
    if (!item.answered) return item.added;
  }
  return std::nullopt;
}

// --- Sending.

std::vector<v1::Operation> StreamLedger::Take(Time now) {
  std::vector<v1::Operation> operations;
  for (Item& item : items_) {
    if (item.phase != Phase::kUnsent) continue;
    // A server that drains takes nothing new, but it answers again what it has answered before.
    if (!MaySend(item) || (draining_ && !item.tried)) break;
    operations.push_back(Send(item));
  }
  if (draining_) TakeHandOver(operations, now);
  return operations;
}

// The state behind the last change that was applied, once nothing is in flight any more.
void StreamLedger::TakeHandOver(std::vector<v1::Operation>& operations, Time now) {
  if (!sent_.empty() || IsCarriedOver()) return;
  Place place = items_.begin();
  while (place != items_.end() && place->phase == Phase::kApplied) ++place;
  // Close is the one change that a draining server takes.
  const bool may_go =
      place != items_.end() &&
      (place->body.has_close() || (place->purpose == Purpose::kSnapshot && place->index == applied_index_));
  if (!may_go) {
    const uint64_t changes = changes_since_request_;
    place = AskForSnapshot(place, applied_index_, now);
    changes_since_request_ = changes;
  }
  operations.push_back(Send(*place));
}

bool StreamLedger::MaySend(const Item& item) const {
  if (sent_.size() >= agreed_in_flight_) return false;
  return !item.body.has_rewind() || item.checkpoint == nullptr || item.checkpoint->is_answered;
}

v1::Operation StreamLedger::Send(Item& item) {
  item.phase = Phase::kSent;
  item.tried = true;
  item.sending = next_sending_++;
  sent_.insert(item.sending);
  v1::Operation operation = item.body;
  operation.set_session(session_);
  operation.set_request_id(absl::StrCat(item.sending));
  if (item.is_change) operation.set_number(NumberOf(item.index));
  if (item.answered && operation.has_chunk()) {  // in a replay: its outputs are known
    operation.mutable_chunk()->set_override_outputs(true);
    operation.mutable_chunk()->clear_outputs();
  }
  if (item.purpose == Purpose::kCheckpoint) {
    operation.mutable_get_state();
  } else if (operation.has_rewind() && item.checkpoint != nullptr) {
    v1::SetState& to = *operation.mutable_set_state();
    to.set_force(true);  // it was this operator's
    *to.mutable_state() = item.checkpoint->tensors;
  }
  return operation;
}

// --- Answers.

StreamLedger::Verdict StreamLedger::Answer(v1::OperationReply reply) {
  Verdict verdict;
  const auto item = std::find_if(items_.begin(), items_.end(), [&](const Item& candidate) {
    return candidate.phase == Phase::kSent && reply.request_id() == absl::StrCat(candidate.sending);
  });
  if (item == items_.end()) return verdict;  // to a sending that counts no more
  client::Answer answer = JudgeAnswer(reply.status());
  switch (answer.fate) {
    case Fate::kApplied:
      sent_.erase(item->sending);
      Applied(item, std::move(reply), verdict);
      break;
    case Fate::kDraining:
      draining_ = true;
      Unsend(item);
      for (Place refused = item; refused != items_.end(); ++refused) refused->tried = false;
      break;
    case Fate::kRetry:
      verdict.pause = RetryDelayOf(answer.status).value_or(kPause);
      Unsend(item);
      break;
    case Fate::kRefused:
      sent_.erase(item->sending);
      Refused(item, std::move(answer.status), verdict);
      break;
    case Fate::kLost:
      verdict.lost = std::move(answer.status);
      break;
    case Fate::kOver:
      verdict.over = std::move(answer.status);
      break;
  }
  return verdict;
}

void StreamLedger::Applied(Place item, v1::OperationReply reply, Verdict& verdict) {
  if (item->is_change) return AppliedChange(item, std::move(reply), verdict);
  switch (item->purpose) {
    case Purpose::kSnapshot:
      return AppliedSnapshot(item, std::move(reply), verdict);
    case Purpose::kCheckpoint:
      verdict.completions.push_back({item->ticket, KeepCheckpoint(*item, reply), {}});
      break;
    case Purpose::kCaller:
      reply.set_position(reply.position() + position_offset_);
      if (reply.has_get_state()) {
        v1::GetStateResponse& state = *reply.mutable_get_state();
        state.set_position(state.position() + position_offset_);
        state.set_number(state.number() - first_number_ + first_index_);
      }
      verdict.completions.push_back({item->ticket, absl::OkStatus(), std::move(reply)});
      break;
  }
  Erase(item);
}

void StreamLedger::AppliedChange(Place item, v1::OperationReply reply, Verdict& verdict) {
  item->phase = Phase::kApplied;
  applied_index_ = item->index;
  if (item->body.has_reset()) position_offset_ = 0 - reply.position();
  if (item->body.has_rewind() && item->checkpoint != nullptr) {
    position_offset_ = item->checkpoint->position - reply.position();
  }
  if (!item->answered) {
    reply.set_number(item->index);
    reply.set_position(reply.position() + position_offset_);
    item->answered = true;
    --unanswered_;
    verdict.completions.push_back({item->ticket, absl::OkStatus(), std::move(reply)});
  }
  if (limits_.checkpoint_every > 0) return;
  Erase(item);
  SetSnapshot(std::nullopt);  // what came after it is not kept
}

void StreamLedger::AppliedSnapshot(Place item, v1::OperationReply reply, Verdict& verdict) {
  const Time added = item->added;
  const uint64_t index = item->index;
  v1::GetStateResponse& state = *reply.mutable_get_state();
  Erase(item);
  if (state.number() == NumberOf(index)) {
    SetSnapshot(Snapshot{index, state.position() + position_offset_, std::move(*state.mutable_state())});
    if (IsSnapshotDue()) AskForSnapshot(items_.end(), next_index_ - 1, added);
  } else if (state.number() > NumberOf(next_index_ - 1)) {
    verdict.over = WithReason(
        absl::AbortedError(absl::StrCat("the session has had ", state.number(), " operations, but this stream sent ",
                                        NumberOf(next_index_ - 1), ": somebody else changes it")),
        "OLDER_OWNER");
  } else {
    // Asked again over a new connection, it came after operations whose replies had been lost.
    AskForSnapshot(items_.end(), next_index_ - 1, added);
  }
}

absl::Status StreamLedger::KeepCheckpoint(Item& item, v1::OperationReply& reply) {
  Checkpoint& checkpoint = *item.checkpoint;
  checkpoint.is_answered = true;
  const std::string& name = item.body.checkpoint().name();
  const bool is_current = checkpoints_[name] == item.checkpoint;
  const int64_t bytes = Size(reply.get_state().state());
  if (is_current && checkpoint_bytes_ + bytes > limits_.max_kept_bytes / 2) {
    checkpoints_.erase(name);
    return absl::ResourceExhaustedError(absl::StrCat("checkpoints would take ", checkpoint_bytes_ + bytes,
                                                     " bytes, more than half of max_kept_bytes (",
                                                     limits_.max_kept_bytes, "); use their names again, or raise it"));
  }
  if (is_current) checkpoint_bytes_ += bytes;
  checkpoint.position = reply.get_state().position() + position_offset_;
  checkpoint.tensors = std::move(*reply.mutable_get_state()->mutable_state());
  return absl::OkStatus();
}

// The caller's own mistake or time limit. What was asked for behind it was meant to run on its result, so it fails too.
void StreamLedger::Refused(Place item, absl::Status status, Verdict& verdict) {
  if (item->purpose == Purpose::kCheckpoint) item->checkpoint->is_answered = true;  // a Rewind to it will be refused
  if (item->answered || item->purpose == Purpose::kSnapshot) {
    const std::string what = item->answered ? absl::StrCat("operation ", item->index, " cannot be repeated")
                                            : std::string("the state cannot be fetched");
    verdict.over = WithReason(absl::DataLossError(absl::StrCat(what, ": ", status.ToString())), "SESSION_LOST");
    return;
  }
  const uint64_t index = item->index;
  const bool is_change = item->is_change;
  const absl::Status follows =
      WithReason(absl::AbortedError(absl::StrCat("operation ", index, " before this one failed (", status.message(),
                                                 "), so this one was not applied; feed both again")),
                 "PREDECESSOR_FAILED");
  verdict.completions.push_back({item->ticket, std::move(status), {}});
  Place next = Erase(item);
  if (!is_change) return;
  Unsend(next);
  while (next != items_.end()) {
    if (next->is_change) {
      verdict.completions.push_back({next->ticket, follows, {}});
      next = Erase(next);
    } else {
      next->index = index - 1;
      ++next;
    }
  }
  next_index_ = index;
}

// --- What is kept.

StreamLedger::Place StreamLedger::Erase(Place item) {
  kept_bytes_ -= item->bytes;
  if (item->purpose == Purpose::kSnapshot) --requests_;
  if (item->purpose != Purpose::kSnapshot && !item->answered) --unanswered_;
  return items_.erase(item);
}

void StreamLedger::SetSnapshot(std::optional<Snapshot> snapshot) {
  if (snapshot_) kept_bytes_ -= SizeOf(snapshot_->tensors);
  snapshot_ = std::move(snapshot);
  if (!snapshot_) return;
  kept_bytes_ += SizeOf(snapshot_->tensors);
  for (Place item = items_.begin(); item != items_.end();) {
    const bool is_covered = item->phase == Phase::kApplied && item->index <= snapshot_->index;
    item = is_covered ? Erase(item) : std::next(item);
  }
}

}  // namespace rnnserve::client
