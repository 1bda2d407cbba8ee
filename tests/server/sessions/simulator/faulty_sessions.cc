// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/simulator/faulty_sessions.h"

#include <algorithm>

namespace rnnserve::sim {
namespace {

void Refuse(Claim& claim, absl::Status status, const Numbers& numbers) {
  Outcome outcome;
  outcome.status = std::move(status);
  outcome.numbers = numbers;
  claim.done(std::move(outcome));
}

}  // namespace

absl::StatusOr<SessionPtr> FaultySessions::Find(std::string_view key, std::string_view tenant) {
  absl::StatusOr<SessionPtr> found = real_->Find(key, tenant);
  if (found.ok()) return found;
  const bool opens = (fault_ == Fault::kOtherBootOpensAnew && absl::IsDataLoss(found.status())) ||
                     (fault_ == Fault::kNumberOpens && absl::IsNotFound(found.status()));
  if (opens) {
    OpenSpec spec = last_open_;
    spec.name.clear();
    spec.request = {};
    return real_->Open(std::move(spec))->session;
  }
  if (fault_ == Fault::kForeignTold && real_->Find(key, last_open_.tenant).ok()) {
    return absl::PermissionDeniedError("the session belongs to another tenant");
  }
  return found;
}

// As the next one, if it would be accepted.
void FaultySessions::Renumber(const Session::View& view, Claim& claim) const {
  if (!view.in_flight && view.live) claim.number = view.numbers.last_applied + 1;
}

bool FaultySessions::Disturb(const SessionPtr& session, const Session::View& view, Claim& claim) {
  const uint64_t applied = view.numbers.last_applied;
  const uint64_t number = claim.number.value_or(0);
  const bool in_window = number > 0 && number <= applied && number + static_cast<uint64_t>(window_) > applied;
  Attachment& newest = newest_[session.get()];
  const Attachment before = newest;
  newest = std::max(newest, claim.attachment);
  switch (fault_) {
    case Fault::kRepetitionComputedAgain:
      if (in_window) Renumber(view, claim);
      break;
    case Fault::kOtherContentAnswered:
      claim.digest = {};
      break;
    case Fault::kTooOldAppliedAgain:
      if (number > 0 && number <= applied && !in_window) Renumber(view, claim);
      break;
    case Fault::kGapAccepted:
      if (number > applied + 1) Renumber(view, claim);
      break;
    case Fault::kInFlightComputedTwice:
      if (number > applied && view.in_flight && seen_[session.get()].contains(number)) claim.granted(Lease(session, 0));
      break;
    case Fault::kTimeoutIgnored:
      claim.deadline = absl::InfiniteDuration();
      break;
    case Fault::kUnnumberedSideBySide:
      if (!claim.number && view.in_flight) claim.granted(Lease(session, 0));
      break;
    case Fault::kOlderOwnerServed:
      if (claim.attachment != kNoAttachment) claim.attachment = newest;
      break;
    case Fault::kOlderQueueComputed:
      if (claim.attachment != kNoAttachment) claim.attachment = 1;
      break;
    case Fault::kHalfOpenBlocks:
      if (claim.attachment > before && before != kNoAttachment && view.in_flight) {
        Refuse(claim, absl::AbortedError("another stream is at it"), view.numbers);
        return false;
      }
      break;
    case Fault::kCloseForgotten:
      if (!view.live) {
        Refuse(claim, absl::NotFoundError("the session was closed"), view.numbers);
        return false;
      }
      break;
    default:
      break;
  }
  if (number > 0) seen_[session.get()].insert(number);
  return true;
}

void FaultySessions::DisturbAnswer(const SessionPtr& session, Claim& claim) const {
  if (fault_ != Fault::kNumbersMissing && fault_ != Fault::kTimeoutAfterCommit &&
      fault_ != Fault::kResumeAheadOfApplied) {
    return;
  }
  const bool has_deadline = claim.deadline != absl::InfiniteDuration();
  claim.done = [this, session, has_deadline, done = std::move(claim.done)](Outcome outcome) mutable {
    if (fault_ == Fault::kNumbersMissing && !outcome.status.ok()) outcome.numbers = {};
    if (fault_ == Fault::kTimeoutAfterCommit && outcome.status.ok() && has_deadline) {
      outcome.status = absl::DeadlineExceededError("too late");
    }
    if (fault_ == Fault::kResumeAheadOfApplied && !outcome.status.ok() && session->view().in_flight) {
      ++outcome.numbers.last_applied;
    }
    done(std::move(outcome));
  };
}

void FaultySessions::Acquire(const SessionPtr& session, Claim claim) {
  if (!Disturb(session, session->view(), claim)) return;
  DisturbAnswer(session, claim);
  real_->Acquire(session, std::move(claim));
}

}  // namespace rnnserve::sim
