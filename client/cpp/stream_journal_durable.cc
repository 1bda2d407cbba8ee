// SPDX-License-Identifier: Apache-2.0
// Durable sessions: what the store lacks, and what a server that has taken one over asks for again.
#include <algorithm>

#include "base/field_error.h"
#include "client/cpp/stream_journal.h"

namespace rnnserve::client {

// The store keeps the newest reply only: without snapshots one change at a time has no answer yet.
bool StreamJournal::WaitsForReply(const Item& item) const {
  if (!durable_ || limits_.checkpoint_every > 0 || !item.is_change || item.answered) return false;
  return std::any_of(items_.begin(), items_.end(), [](const Item& other) {
    return other.is_change && !other.answered && other.phase == Phase::kSent;
  });
}

void StreamJournal::NoteDurable(uint64_t number) {
  if (!durable_ || number < first_number_) return;  // 0: not told
  const uint64_t index = std::min(IndexOf(number), applied_index_);
  if (index <= durable_index_) return;
  durable_index_ = index;
  Forget();
}

// The session is on another server, which expects this number next. False: it has less than the store was said to have.
bool StreamJournal::GoBackTo(uint64_t next_number) {
  if (next_number < first_number_) return false;
  const uint64_t index = std::min(IndexOf(next_number), applied_index_ + 1);
  if (index <= durable_index_) return false;
  Unsend(items_.begin());
  for (Item& item : items_) {
    if (item.is_change && item.index >= index) item.phase = Phase::kUnsent;
  }
  applied_index_ = index - 1;
  return true;
}

// What only a durable session's server says. Returns whether that was all.
bool StreamJournal::AnswerDurable(Entry item, const v1::OperationReply& reply, const absl::Status& status, Next& next) {
  const bool is_behind =
      status.ok() && !item->is_change &&
      (reply.has_get_state() ? reply.get_state().number() : reply.fork().number()) < NumberOf(applied_index_);
  if (is_behind || absl::IsOutOfRange(status)) {
    const uint64_t has = reply.has_get_state() ? reply.get_state().number() : reply.fork().number();
    if (GoBackTo(is_behind ? has + 1 : reply.next_expected())) return true;
    next.lost = WithReason(
        absl::DataLossError("the server that has the session now knows less of it than the store had"), "SESSION_LOST");
    return true;
  }
  if (absl::IsAlreadyExists(status) && item->answered) {  // the store had more than this client knew
    sent_.erase(item->sending);
    item->phase = Phase::kApplied;
    applied_index_ = std::max(applied_index_, item->index);
    return true;
  }
  return false;
}

}  // namespace rnnserve::client
