// SPDX-License-Identifier: Apache-2.0
// Operations that fail and sessions that end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/contract/session.h"

namespace rnnserve {

void Session::Refuse(OutcomeDone done, absl::Status status) {
  Outcome outcome;
  outcome.status = WithNumbers(std::move(status), numbers_);
  outcome.numbers = numbers_;
  calls_.push_back(AnswerCall{std::move(done), std::move(outcome)});
}

void Session::FailEntry(Entry& entry, const absl::Status& status) {
  if (entry.is_change) {
    answers_due_ -= static_cast<int32_t>(entry.waiting.size());
    for (OutcomeDone& done : entry.waiting) Refuse(std::move(done), status);
    return;
  }
  --answers_due_;
  calls_.emplace_back([done = std::move(entry.read.done), failed = WithNumbers(status, numbers_)]() mutable {
    done(std::move(failed));
  });
}

// Aborts accepted operations from there on that have no lease yet. Reads without a number are still answered.
void Session::AbortQueued(EntryIterator from, const absl::Status& status) {
  uint64_t stays_up_to = numbers_.last_applied;
  for (auto entry = in_flight_.begin(); entry != from; ++entry) stays_up_to = std::max(stays_up_to, entry->number);
  for (auto entry = from; entry != in_flight_.end();) {
    if (entry->is_granted) stays_up_to = entry->number;
    const bool stays =
        entry->is_granted || (!entry->is_change && (!entry->read.after_number || entry->number <= stays_up_to));
    if (stays) {
      ++entry;
      continue;
    }
    FailEntry(*entry, status);
    entry = in_flight_.erase(entry);
  }
  // Reads that waited for an aborted number move behind the remaining operations.
  const uint64_t last = last_accepted();
  for (Entry& entry : in_flight_) entry.number = std::min(entry.number, last);
}

void Session::Fail(uint64_t grant, absl::Status status) {
  MutexLock lock(mutex_);
  if (grant != grant_ || in_flight_.empty() || !in_flight_.front().is_granted) return;
  FailGranted(std::move(status));
  Drive();
}

// The number stays unused, so nothing above it can be applied.
void Session::FailAt(EntryIterator place, absl::Status status) {
  const uint64_t number = place->number;
  const uint64_t last = last_accepted();
  FailEntry(*place, status);
  place = in_flight_.erase(place);
  last_used_ = site_->aging->Now();
  AbortQueued(place, SessionError(absl::StatusCode::kAborted, "PREVIOUS_FAILED",
                                  absl::StrCat("operation ", number, " before this one failed (", status.message(),
                                               "), so this one was not applied; go on at next_expected")));
  Release();
  RememberRefused(number, last, status);
}

void Session::EndTimeouts() {
  MutexLock lock(mutex_);
  const absl::Duration now = site_->clock->Now();
  for (EntryIterator entry = in_flight_.begin(); entry != in_flight_.end(); ++entry) {
    if (!entry->is_change || entry->is_granted) continue;
    if (now < entry->claim.deadline) {
      WatchTimeout(*entry);
      continue;
    }
    FailAt(entry, absl::DeadlineExceededError("the operation's timeout passed while it waited for its turn"));
    break;
  }
  if (stored_ != nullptr && live_) WriteIfDue();
  Drive();
}

// Frees the state at once and fails the operations in flight; a session that expires has none.
void Session::End(EndCause cause) {
  live_ = false;
  cause_ = cause;
  CountLife(-1);
  if (const SessionCounters* counters = subject_->counters()) {
    (cause == EndCause::kExpired ? counters->expired
     : cause == EndCause::kMoved ? counters->moved
                                 : counters->closed)
        ->Add();
  }
  site_->timeouts->Remove(this);
  state_.reset();
  checkpoints_.reset();
  budget_->ReleaseSession(std::exchange(charged_, 0));
  // No more replies follow: the kept ones stay for a while.
  const int64_t stays = kBytesPerSession + window_.charge();
  budget_->ReleaseBytes(std::exchange(charged_for_terms_, stays) - stays);
  // Before the answers: a caller that sends its operation again at once finds no ended session in its way.
  calls_.emplace_back([this] { site_->ended(shared_from_this()); });
  while (!in_flight_.empty()) {
    FailEntry(in_flight_.front(), EndedSession(cause));
    in_flight_.pop_front();
  }
  if (stored_ != nullptr) EndStored();
}

void Session::CountLife(int64_t sign) const {
  const SessionCounters* const counters = subject_->counters();
  if (counters == nullptr) return;
  counters->active->Add(sign);
  counters->state_bytes->Add(sign * charged_);
}

std::optional<absl::Duration> Session::EndIfIdle() {
  const absl::Duration now = site_->aging->Now();
  MutexLock lock(mutex_);
  if (!live_) return std::nullopt;
  if (!in_flight_.empty()) return now + terms_.idle_timeout;
  if (now - last_used_ < terms_.idle_timeout) {
    if (stored_ != nullptr) KeepRecord();
    return last_used_ + terms_.idle_timeout;
  }
  End(EndCause::kExpired);
  Drive();
  return std::nullopt;
}

void Session::Forget() {
  const MutexLock lock(mutex_);
  if (forgotten_ || live_) return;
  forgotten_ = true;
  window_.Clear();
  budget_->ReleaseBytes(std::exchange(charged_for_terms_, 0));
}

}  // namespace rnnserve
