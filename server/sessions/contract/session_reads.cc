// SPDX-License-Identifier: Apache-2.0
// Reads, and the checkpoints that they set.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/sessions/contract/session.h"

namespace rnnserve {

void Session::Read(ReadRequest read) {
  MutexLock lock(mutex_);
  const auto refuse = [&](absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    calls_.push_back([done = std::move(read.done), status = WithNumbers(std::move(status), numbers_)]() mutable {
      done(std::move(status));
    });
    Drive();
  };
  if (!live_) return refuse(EndedSession(cause_));
  last_used_ = site_->aging->Now();
  const uint64_t wanted = read.after_number ? *read.after_number
                          : read.in_order   ? last_accepted()
                                            : numbers_.last_applied;
  if (wanted > last_accepted()) {
    return refuse(SessionError(
        absl::StatusCode::kOutOfRange, "NUMBER_TOO_HIGH",
        absl::StrCat("after_number is ", wanted, ", but the last operation accepted is ", last_accepted())));
  }
  if (wanted < numbers_.last_applied) {
    return refuse(SessionError(absl::StatusCode::kFailedPrecondition, "STATE_GONE",
                               absl::StrCat("the state after number ", wanted, " is gone: ", numbers_.last_applied,
                                            " is applied; take a Checkpoint of states that are wanted later")));
  }
  if (wanted == numbers_.last_applied) {
    AnswerRead(read);
    return Drive();
  }
  if (answers_due_ >= 2 * terms_.max_in_flight) {
    return refuse(TooManyInFlight(absl::StrCat("the session has ", answers_due_, " answers due; wait for some")));
  }
  auto place =
      std::find_if(in_flight_.begin(), in_flight_.end(), [&](const Entry& entry) { return entry.number > wanted; });
  Entry entry;
  entry.number = wanted;
  entry.read = std::move(read);
  in_flight_.insert(place, std::move(entry));
  ++answers_due_;
  Drive();
}

void Session::AnswerRead(ReadRequest& read) {
  absl::StatusOr<Snapshot> snapshot = Snapshot{numbers_, state_, subject_};
  if (!read.checkpoint.empty()) {
    if (absl::Status placed = SetCheckpoint(read.checkpoint); !placed.ok()) {
      snapshot = WithNumbers(std::move(placed), numbers_);
    }
  }
  if (read.carries_over) carried_over_ = true;
  if (stored_ != nullptr && snapshot.ok()) return AnswerWhenNewest(std::move(read.done), *std::move(snapshot));
  calls_.emplace_back(
      [done = std::move(read.done), snapshot = std::move(snapshot)]() mutable { done(std::move(snapshot)); });
}

absl::Status Session::SetCheckpoint(const std::string& name) {
  if (checkpoints_ == nullptr) checkpoints_ = std::make_unique<Checkpoints>();
  const auto found = checkpoints_->find(name);
  if (found == checkpoints_->end() && checkpoints_->size() >= kMaxCheckpoints) {
    return TooLarge(absl::StrCat("the session has ", kMaxCheckpoints,
                                 " checkpoints, as many as one may have; use one "
                                 "of their names again"),
                    {.limit = kMaxCheckpoints, .value = kMaxCheckpoints + 1});
  }
  const int64_t growth =
      found == checkpoints_->end() ? kBytesPerCheckpoint + state_->bytes : state_->bytes - found->second.state->bytes;
  if (absl::Status charged = Recharge(growth); !charged.ok()) return charged;
  (*checkpoints_)[name] = {state_, numbers_};
  return absl::OkStatus();
}

absl::StatusOr<Snapshot> Session::FindCheckpoint(const std::string& name) const {
  const MutexLock lock(mutex_);
  if (checkpoints_ != nullptr) {
    const auto found = checkpoints_->find(name);
    if (found != checkpoints_->end()) return Snapshot{found->second.numbers, found->second.state, subject_};
  }
  const auto key = [](std::string* out, const auto& entry) { out->append(entry.first); };
  return SessionError(
      absl::StatusCode::kNotFound, "CHECKPOINT_UNKNOWN",
      checkpoints_ == nullptr || checkpoints_->empty()
          ? "the session has no checkpoints; Checkpoint makes one"
          : absl::StrCat("the session has no such checkpoint; it has ", absl::StrJoin(*checkpoints_, ", ", key)));
}

}  // namespace rnnserve
