// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "client/cpp/status.h"
#include "client/cpp/stream_journal.h"
#include "client/cpp/verdict.h"

namespace rnnserve::client {
namespace {

constexpr auto kPause = std::chrono::milliseconds(50);  // where the server gives no advice

}  // namespace

StreamJournal::Next StreamJournal::Answer(v1::OperationReply reply) {
  Next next;
  uint64_t sending = 0;
  // Else it answers a sending that counts no more.
  if (!absl::SimpleAtoi(reply.request_id(), &sending) || !sent_.contains(sending)) return next;
  const auto item = std::find_if(items_.begin(), items_.end(), [&](const Item& candidate) {
    return candidate.phase == Phase::kSent && candidate.sending == sending;
  });
  if (item == items_.end()) return next;
  client::Answer answer = JudgeAnswer(reply.status());
  if (durable_ && AnswerDurable(item, reply, answer.status, next)) return next;
  switch (answer.verdict) {
    case Verdict::kApplied:
      sent_.erase(item->sending);
      Applied(item, std::move(reply), next);
      break;
    case Verdict::kDraining:
      draining_ = true;
      Unsend(item);
      for (Entry refused = item; refused != items_.end(); ++refused) refused->tried = false;
      break;
    case Verdict::kRetry:
      next.pause = RetryDelayOf(answer.status).value_or(kPause);
      Unsend(item);
      break;
    case Verdict::kRefused:
      sent_.erase(item->sending);
      Refused(item, std::move(answer.status), next);
      break;
    case Verdict::kLost:
      next.lost = std::move(answer.status);
      break;
    case Verdict::kOver:
      next.over = std::move(answer.status);
      break;
  }
  return next;
}

void StreamJournal::Applied(Entry item, v1::OperationReply reply, Next& next) {
  if (item->is_change) return AppliedChange(item, std::move(reply), next);
  switch (item->purpose) {
    case Purpose::kSnapshot:
      return AppliedSnapshot(item, std::move(reply), next);
    case Purpose::kCheckpoint:
      next.finished.push_back({item->ticket, KeepCheckpoint(*item, reply), {}});
      break;
    case Purpose::kCaller:
      reply.set_position(reply.position() + position_offset_);
      if (reply.has_get_state()) {
        v1::GetStateResponse& state = *reply.mutable_get_state();
        state.set_position(state.position() + position_offset_);
        state.set_number(state.number() - first_number_ + first_index_);
      }
      next.finished.push_back({item->ticket, absl::OkStatus(), std::move(reply)});
      break;
  }
  Erase(item);
}

void StreamJournal::AppliedChange(Entry item, v1::OperationReply reply, Next& next) {
  const uint64_t durable_number = reply.durable_number();
  item->phase = Phase::kApplied;
  applied_index_ = item->index;
  if (item->index >= rows_since_ && !item->answered) reply_room_.Learn(item->body, reply);
  if (item->body.has_reset()) position_offset_ = 0 - reply.position();
  if (item->body.has_rewind()) {
    position_offset_ = item->checkpoint->position - reply.position();
  }
  if (!item->answered) {
    reply.set_number(item->index);
    reply.set_position(reply.position() + position_offset_);
    item->answered = true;
    --unanswered_;
    next.finished.push_back({item->ticket, absl::OkStatus(), std::move(reply)});
  }
  NoteDurable(durable_number);
  if (limits_.checkpoint_every > 0) return;
  SetSnapshot(std::nullopt);  // what came after it is not kept
  Forget();
}

void StreamJournal::AppliedSnapshot(Entry item, v1::OperationReply reply, Next& next) {
  const Time added = item->added;
  const uint64_t index = item->index;
  v1::GetStateResponse& state = *reply.mutable_get_state();
  Erase(item);
  if (state.number() == NumberOf(index)) {
    SetSnapshot(Snapshot{index, state.position() + position_offset_, std::move(*state.mutable_state())});
    if (IsSnapshotDue()) AskForSnapshot(items_.end(), next_index_ - 1, added);
  } else if (state.number() > NumberOf(next_index_ - 1)) {
    next.over = WithReason(
        absl::AbortedError(absl::StrCat("the session has had ", state.number(), " operations, but this stream sent ",
                                        NumberOf(next_index_ - 1), ": another client changes it")),
        "OLDER_OWNER");
  } else {
    // Asked again over a new connection, it came after operations whose replies had been lost.
    AskForSnapshot(items_.end(), next_index_ - 1, added);
  }
}

absl::Status StreamJournal::KeepCheckpoint(Item& item, v1::OperationReply& reply) {
  Checkpoint& checkpoint = *item.checkpoint;
  const std::string& name = item.body.checkpoint().name();
  const bool is_current = checkpoints_[name] == item.checkpoint;
  const auto bytes = static_cast<int64_t>(reply.get_state().state().ByteSizeLong());
  if (is_current && checkpoint_bytes_ + bytes > limits_.max_kept_bytes / 2) {
    checkpoints_.erase(name);
    return absl::ResourceExhaustedError(absl::StrCat("checkpoints would take ", checkpoint_bytes_ + bytes,
                                                     " bytes, more than half of max_kept_bytes (",
                                                     limits_.max_kept_bytes, "); use their names again, or raise it"));
  }
  if (is_current) checkpoint_bytes_ += bytes;
  checkpoint.is_answered = true;
  checkpoint.position = reply.get_state().position() + position_offset_;
  checkpoint.rows = reply.get_state().rows();
  checkpoint.tensors = std::move(*reply.mutable_get_state()->mutable_state());
  return absl::OkStatus();
}

// The caller's own mistake or time limit. What was asked for behind it was meant to run on its result, so it fails too.
void StreamJournal::Refused(Entry item, absl::Status status, Next& next) {
  if (item->answered || item->must_succeed || item->purpose == Purpose::kSnapshot) {
    const std::string what = item->purpose == Purpose::kSnapshot ? std::string("the state cannot be fetched")
                             : item->answered ? absl::StrCat("operation ", item->index, " cannot be repeated")
                                              : std::string("a checkpoint cannot be returned to");
    next.over = WithReason(absl::DataLossError(absl::StrCat(what, ": ", status.ToString())), "SESSION_LOST");
    return;
  }
  const uint64_t index = item->index;
  const bool is_change = item->is_change;
  const absl::Status follows =
      WithReason(absl::AbortedError(absl::StrCat("operation ", index, " before this one failed (", status.message(),
                                                 "), so this one was not applied; feed both again")),
                 "PREVIOUS_FAILED");
  next.finished.push_back({item->ticket, std::move(status), {}});
  Entry behind = Erase(item);
  if (!is_change) return;
  Unsend(behind);
  while (behind != items_.end()) {
    if (behind->is_change) {
      if (!behind->answered) next.finished.push_back({behind->ticket, follows, {}});
      behind = Erase(behind);
    } else {
      behind->index = index - 1;
      ++behind;
    }
  }
  next_index_ = index;
}

}  // namespace rnnserve::client
