// SPDX-License-Identifier: Apache-2.0
// From acceptance to commit: order, leases, failures, the end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

bool Session::IsTooLate(const Claim& claim) const {
  return claim.deadline != absl::InfiniteDuration() && site_->clock->Now() >= claim.deadline;
}

bool Session::StartNext() {
  if (in_flight_.empty()) return false;
  Entry& first = in_flight_.front();
  if (!first.is_change) {
    ReadRequest read = std::move(first.read);
    in_flight_.pop_front();
    --answers_due_;
    AnswerRead(read);
    return true;
  }
  if (first.is_granted) return false;
  first.is_granted = true;
  ++grant_;
  if (IsTooLate(first.claim)) {
    FailGranted(absl::DeadlineExceededError("the operation's timeout passed while it waited for its turn"));
    return true;
  }
  calls_.push_back(GrantCall{std::move(first.claim.granted), Lease(shared_from_this(), grant_)});
  return true;
}

void Session::Drive() {
  if (driving_) return;
  driving_ = true;
  do {
    while (!calls_.empty()) {
      std::vector<Call> calls = std::exchange(calls_, {});
      mutex_.unlock();
      for (Call& call : calls) {
        if (auto* const answer = std::get_if<AnswerCall>(&call)) (*answer)();
        if (auto* const grant = std::get_if<GrantCall>(&call)) (*grant)();
        if (auto* const other = std::get_if<absl::AnyInvocable<void()>>(&call)) (*other)();
      }
      calls.clear();
      mutex_.lock();
      if (calls_.capacity() == 0) calls_ = std::move(calls);
    }
  } while (StartNext() || !calls_.empty());
  driving_ = false;
}

void Session::Commit(uint64_t grant, Change change) {
  SessionStatePtr before;  // destroyed, and zeroed, after the lock is released
  MutexLock lock(mutex_);
  if (grant != grant_ || in_flight_.empty() || !in_flight_.front().is_granted) return;
  Entry& first = in_flight_.front();
  if (IsTooLate(first.claim)) {
    FailGranted(absl::DeadlineExceededError("the operation's timeout passed before it was applied"));
    return Drive();
  }
  const bool is_written_first = IsWrittenFirst(change);
  const int64_t growth = GrowthOf(change);
  if (absl::Status charged = Recharge(is_written_first ? std::max<int64_t>(growth, 0) : growth); !charged.ok()) {
    FailGranted(std::move(charged));
    return Drive();
  }
  if (is_written_first) {
    stored_->pending.emplace(std::move(change));
  } else {
    before = ApplyChange(std::move(change));
  }
  if (stored_ != nullptr) WriteIfDue();
  Drive();
}

int64_t Session::GrowthOf(const Change& change) const {
  return change.closes ? 0 : change.state->bytes - state_->bytes;
}

SessionStatePtr Session::ApplyChange(Change change) {
  Entry& first = in_flight_.front();
  SessionStatePtr before = change.closes ? nullptr : std::exchange(state_, std::move(change.state));
  numbers_ = {first.number, change.position};
  applied_by_ = std::max(applied_by_, first.claim.attachment);
  if (first.claim.number) window_.Keep({first.number, first.claim.digest, numbers_, change.reply}, terms_.window);
  answers_due_ -= static_cast<int32_t>(first.waiting.size());
  for (OutcomeDone& done : first.waiting) {
    calls_.push_back(AnswerCall{std::move(done), Outcome{absl::OkStatus(), numbers_, first.number, change.reply,
                                                         /*repeated=*/false, durable_number()}});
  }
  in_flight_.pop_front();
  last_used_ = site_->aging->Now();
  carried_over_ = false;
  if (change.closes) End(EndCause::kClosed);
  return before;
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

void Session::WatchTimeout(const Entry& entry) {
  if (entry.claim.deadline != absl::InfiniteDuration()) site_->timeouts->Add(entry.claim.deadline, shared_from_this());
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

absl::Status Session::CheckReply(int64_t bytes) const {
  const MutexLock lock(mutex_);
  return in_flight_.front().claim.number ? CheckFits(bytes) : absl::OkStatus();
}

absl::Status Session::Recharge(int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (bytes > 0) {
    if (absl::Status taken = budget_->TakeBytes(bytes); !taken.ok()) return taken;
  } else {
    budget_->ReleaseBytes(-bytes);
  }
  charged_ += bytes;
  if (subject_->counters() != nullptr) subject_->counters()->state_bytes->Add(bytes);
  return absl::OkStatus();
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

Lease::Lease(std::shared_ptr<Session> session, uint64_t grant) ABSL_NO_THREAD_SAFETY_ANALYSIS
    : session_(std::move(session)),
      grant_(grant),
      state_(session_->state_) {}

Lease::~Lease() {
  if (session_ != nullptr) session_->Fail(grant_, absl::InternalError("the operation was let go before its end"));
}

// A lease excludes every change of the numbers, without the lock.
const Numbers& Lease::numbers() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return session_->numbers_; }
absl::StatusOr<Snapshot> Lease::FindCheckpoint(const std::string& name) const { return session_->FindCheckpoint(name); }
absl::Status Lease::CheckReply(int64_t bytes) const { return session_->CheckReply(bytes); }

void Lease::Commit(Change change) && {
  const std::shared_ptr<Session> session = std::exchange(session_, nullptr);
  session->Commit(grant_, std::move(change));
}

void Lease::Fail(absl::Status status) && {
  const std::shared_ptr<Session> session = std::exchange(session_, nullptr);
  session->Fail(grant_, std::move(status));
}

}  // namespace rnnserve
