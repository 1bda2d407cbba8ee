// SPDX-License-Identifier: Apache-2.0
// What is asked for, sent and kept. What answers do is in stream_journal_answers.cc, what durable sessions need in
// stream_journal_durable.cc.
#include "client/cpp/stream_journal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve::client {
namespace {

bool IsChange(const v1::Operation& operation) {
  return !operation.has_get_state() && !operation.has_fork() && !operation.has_checkpoint();
}

int64_t Size(const google::protobuf::MessageLite& message) { return static_cast<int64_t>(message.ByteSizeLong()); }

int64_t SizeOf(const std::optional<v1::StateTensors>& tensors) { return tensors ? Size(*tensors) : 0; }

}  // namespace

bool StreamJournal::HasRoom(int64_t bytes) const {
  // A server bounds what is not in its store yet; only the next operation's reply tells that more of it is.
  const bool only_undurable = durable_ && unanswered_ == 0;
  return unanswered_ < limits_.max_in_flight &&
         (items_.empty() || only_undurable || kept_bytes_ + bytes <= limits_.max_kept_bytes);
}

bool StreamJournal::IsSnapshotDue() const {
  return limits_.checkpoint_every > 0 && requests_ == 0 && changes_since_request_ > 0 &&
         (changes_since_request_ >= limits_.checkpoint_every || kept_bytes_ > limits_.max_kept_bytes / 2);
}

void StreamJournal::MakeRoom(Time now) {
  if (limits_.checkpoint_every > 0 && requests_ == 0 && changes_since_request_ > 0) {
    AskForSnapshot(items_.end(), next_index_ - 1, now);
  }
}

StreamJournal::Entry StreamJournal::AskForSnapshot(Entry before, uint64_t index, Time now) {
  Item item;
  item.purpose = Purpose::kSnapshot;
  item.index = index;
  item.added = now;
  item.body.mutable_get_state();
  ++requests_;
  if (before == items_.end()) changes_since_request_ = 0;
  return items_.insert(before, std::move(item));
}

StreamJournal::Ticket StreamJournal::Add(v1::Operation body, Time now) {
  Item item;
  if (body.has_select_rows()) has_selected_rows_ = true;
  if (body.has_rewind()) {
    item.checkpoint = checkpoints_.at(body.rewind().checkpoint());
    item.must_succeed = has_selected_rows_;
    if (has_selected_rows_) AddRows(item.checkpoint, now);
  }
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
  }
  item.body = std::move(body);
  kept_bytes_ += item.bytes;
  ++unanswered_;
  const Ticket ticket = item.ticket;
  items_.push_back(std::move(item));
  if (IsSnapshotDue()) AskForSnapshot(items_.end(), next_index_ - 1, now);
  return ticket;
}

// As many rows as the checkpoint has: SetState takes no others. Its answer goes to no caller.
void StreamJournal::AddRows(const std::shared_ptr<Checkpoint>& checkpoint, Time now) {
  Item item;
  item.is_change = item.answered = item.must_succeed = true;
  item.index = next_index_++;
  item.added = now;
  int64_t rows = 1;
  if (checkpoint->tensors.tensors_size() > 0) {
    const v1::Tensor& h = checkpoint->tensors.tensors(0);
    const auto most = static_cast<int64_t>(h.raw().size());  // it comes from outside
    if (checkpoint->rows > 0) {
      rows = std::min(checkpoint->rows, std::max<int64_t>(most, 1));
    } else {
      // Of an older server: initial_h is [1, rows, size] or [rows, 1, size], as a session has one direction.
      for (int axis = 0; axis + 1 < h.shape_size(); ++axis) {
        if (h.shape(axis) > 0 && rows <= most / h.shape(axis)) rows *= h.shape(axis);
      }
    }
  }
  item.body.mutable_select_rows()->mutable_rows()->Resize(static_cast<int>(rows), 0);
  item.bytes = Size(item.body);
  kept_bytes_ += item.bytes;
  items_.push_back(std::move(item));
}

bool StreamJournal::HasCheckpoint(const std::string& name) const {
  const auto found = checkpoints_.find(name);
  return found != checkpoints_.end() && found->second->is_answered;
}

void StreamJournal::Agree(Agreed agreed) {
  agreed_in_flight_ = static_cast<size_t>(std::max(agreed.max_in_flight, 1));
  reply_room_.SetWindow(agreed.window_bytes);
  owner_epoch_ = agreed.owner_epoch;
  durable_ = agreed.is_durable;
}

void StreamJournal::Begin(std::string session, uint64_t last_applied, Agreed agreed, Origin origin, Time now,
                          uint64_t position_offset) {
  session_ = std::move(session);
  first_number_ = last_applied + 1;
  position_offset_ = position_offset;
  Agree(agreed);
  if (origin == Origin::kAsOpened) {
    SetSnapshot(Snapshot{});
  } else if (limits_.checkpoint_every > 0) {
    AskForSnapshot(items_.begin(), 0, now);
  }
}

void StreamJournal::BeginAgain(std::string session, Agreed agreed) {
  Detach();
  session_ = std::move(session);
  Agree(agreed);
  first_index_ = snapshot_->index + 1;
  first_number_ = 1;
  applied_index_ = snapshot_->index;
  position_offset_ = snapshot_->position;
  durable_index_ = snapshot_->index;
  Forget();
  for (Item& item : items_) {
    item.phase = Phase::kUnsent;
    item.tried = false;
    item.mute = item.answered && item.body.has_chunk();
  }
}

void StreamJournal::Detach() {
  draining_ = false;
  Unsend(items_.begin());
}

void StreamJournal::Unsend(Entry from) {
  for (; from != items_.end(); ++from) {
    if (from->phase != Phase::kSent) continue;
    from->phase = Phase::kUnsent;
    sent_.erase(from->sending);
  }
}

bool StreamJournal::IsCarriedOver() const {
  return draining_ && sent_.empty() && (durable_ || (snapshot_ && snapshot_->index == applied_index_));
}

std::optional<StreamJournal::Time> StreamJournal::OldestUnanswered() const {
  for (const Item& item : items_) {
    if (!item.answered) return item.added;
  }
  return std::nullopt;
}

// --- Sending.

std::vector<v1::Operation> StreamJournal::Take(Time now) {
  std::vector<v1::Operation> operations;
  for (Item& item : items_) {
    if (item.phase != Phase::kUnsent) continue;
    // A server that drains takes nothing new, but it answers again what it has answered before.
    if (sent_.size() >= agreed_in_flight_ || (draining_ && !item.tried) || !HasReplyRoom(item)) break;
    if (WaitsForReply(item)) break;
    operations.push_back(Send(item));
  }
  if (draining_) TakeHandOver(operations, now);
  return operations;
}

// Its reply next to those in flight, so that none falls out of the window before it has come.
bool StreamJournal::HasReplyRoom(const Item& item) const {
  if (!item.is_change) return true;
  int64_t others = 0;
  bool any = false, all_known = true;
  for (const Item& other : items_) {
    if (!other.is_change || other.phase != Phase::kSent) continue;
    any = true;
    all_known = all_known && other.reply_bytes;
    others += other.reply_bytes.value_or(0);
  }
  return !any || reply_room_.Fits(reply_room_.Expect(item.body), others, all_known);
}

// The state behind the last change that was applied, once nothing is in flight any more.
void StreamJournal::TakeHandOver(std::vector<v1::Operation>& operations, Time now) {
  if (!sent_.empty() || IsCarriedOver()) return;
  Entry place = items_.begin();
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

v1::Operation StreamJournal::Send(Item& item) {
  item.phase = Phase::kSent;
  item.tried = true;
  item.sending = next_sending_++;
  sent_.insert(item.sending);
  if (item.body.has_select_rows()) {
    reply_room_.Forget();
    rows_since_ = item.index;
  }
  item.reply_bytes = item.is_change ? reply_room_.Expect(item.body) : 0;
  v1::Operation operation = item.body;
  operation.set_session(session_);
  operation.set_request_id(absl::StrCat(item.sending));
  if (item.is_change) {
    operation.set_number(NumberOf(item.index));
    if (owner_epoch_ != 0) operation.set_owner_epoch(owner_epoch_);
  }
  if (item.mute) {
    operation.mutable_chunk()->set_override_outputs(true);
    operation.mutable_chunk()->clear_outputs();
  }
  if (item.purpose == Purpose::kCheckpoint) {
    operation.mutable_get_state();
  } else if (operation.has_rewind()) {
    v1::SetState& to = *operation.mutable_set_state();
    to.set_force(true);  // it was this operator's
    *to.mutable_state() = item.checkpoint->tensors;
  }
  return operation;
}

// --- What is kept.

StreamJournal::Entry StreamJournal::Erase(Entry item) {
  kept_bytes_ -= item->bytes;
  if (item->purpose == Purpose::kSnapshot) --requests_;
  if (item->purpose != Purpose::kSnapshot && !item->answered) --unanswered_;
  return items_.erase(item);
}

void StreamJournal::SetSnapshot(std::optional<Snapshot> snapshot) {
  if (snapshot_) kept_bytes_ -= SizeOf(snapshot_->tensors);
  snapshot_ = std::move(snapshot);
  if (!snapshot_) return;
  kept_bytes_ += SizeOf(snapshot_->tensors);
  Forget();
}

// To be sent again, should the session, or what the store lacks of it, be lost.
bool StreamJournal::IsNeeded(const Item& item) const {
  const bool for_snapshot = limits_.checkpoint_every > 0 && !(snapshot_ && item.index <= snapshot_->index);
  return for_snapshot || (durable_ && item.index > durable_index_);
}

void StreamJournal::Forget() {
  for (Entry item = items_.begin(); item != items_.end();) {
    item = item->phase == Phase::kApplied && !IsNeeded(*item) ? Erase(item) : std::next(item);
  }
}

}  // namespace rnnserve::client
