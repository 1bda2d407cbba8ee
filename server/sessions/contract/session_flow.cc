// SPDX-License-Identifier: Apache-2.0
// From acceptance to commit: order and leases. What fails, and the end: session_end.cc.
#include <algorithm>
#include <utility>

#include "server/sessions/contract/session.h"

namespace rnnserve {

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
      Calls calls = std::exchange(calls_, {});
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
  calls_ = Calls();  // an idle session keeps no memory for them
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

void Session::WatchTimeout(const Entry& entry) {
  if (entry.claim.deadline != absl::InfiniteDuration()) site_->timeouts->Add(entry.claim.deadline, shared_from_this());
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
