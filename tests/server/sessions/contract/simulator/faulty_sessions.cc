// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/contract/simulator/faulty_sessions.h"

#include <algorithm>
#include <string>

#include "base/field_error.h"

namespace rnnserve::sim {
namespace {

void Refuse(Claim& claim, absl::Status status, const Numbers& numbers) {
  Outcome outcome;
  outcome.status = std::move(status);
  outcome.numbers = numbers;
  claim.done(std::move(outcome));
}

bool Contains(const absl::Status& status, std::string_view part) {
  return std::string(status.message()).find(part) != std::string::npos;
}

}  // namespace

absl::StatusOr<OpenedSession> FaultySessions::OpenAnew() {
  OpenSpec spec = last_open_;
  spec.name.clear();
  spec.request = {};
  return real_->Open(std::move(spec));
}

std::optional<absl::StatusOr<OpenedSession>> FaultySessions::FindOpened(const OpenAsk& ask) {
  OpenAsk changed = ask;
  if (fault_ == Fault::kDisagreementIgnored) changed.agrees = nullptr;
  if (fault_ == Fault::kRepeatedOpenAttaches) changed.request = {};
  std::optional<absl::StatusOr<OpenedSession>> found = real_->FindOpened(changed);
  if (!found) return found;
  if (fault_ == Fault::kMustExistOpens && absl::IsNotFound(found->status())) return OpenAnew();
  if (found->ok() && fault_ == Fault::kAttachKeepsEpoch) --(*found)->owner_epoch;
  if (found->ok() && fault_ == Fault::kAttachedAsCreated) (*found)->is_new = true;
  return found;
}

absl::StatusOr<SessionPtr> FaultySessions::Find(std::string_view key, std::string_view tenant) {
  absl::StatusOr<SessionPtr> found = real_->Find(key, tenant);
  if (found.ok()) return found;
  const bool opens = (fault_ == Fault::kOtherBootOpensAnew && absl::IsDataLoss(found.status())) ||
                     (fault_ == Fault::kNumberOpens && absl::IsNotFound(found.status()));
  if (opens) return OpenAnew()->session;
  if (fault_ == Fault::kForeignTold && real_->Find(key, last_open_.tenant).ok()) {
    return absl::PermissionDeniedError("the session belongs to another tenant");
  }
  if (fault_ == Fault::kMadeUpKeyLost && absl::IsNotFound(found.status())) {
    return absl::DataLossError("the session lived in another run of the server");
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
    case Fault::kCloseForgotten:
      if (view.live) break;
      Refuse(claim, absl::NotFoundError("the session was closed"), view.numbers);
      return false;
    default:
      break;
  }
  if (number > 0) seen_[session.get()].insert(number);
  return true;
}

// Rule 6.
bool FaultySessions::DisturbOwner(const SessionPtr& session, const Session::View& view, Claim& claim) {
  Attachment& newest = newest_[session.get()];
  const Attachment before = std::exchange(newest, std::max(newest, claim.attachment));
  const bool has_attachment = claim.attachment != kNoAttachment;
  const auto refuse = [&] {
    Refuse(claim, SessionError(absl::StatusCode::kAborted, "OLDER_OWNER", "another stream is at it"), view.numbers);
    return false;
  };
  if (has_attachment && claim.attachment < taken_by_[session.get()]) return refuse();
  switch (fault_) {
    case Fault::kOlderOwnerServed:
      if (has_attachment) claim.attachment = newest;
      break;
    case Fault::kOlderQueueComputed:
      if (has_attachment) claim.attachment = 1;
      break;
    case Fault::kHalfOpenBlocks:
      if (claim.attachment > before && before != kNoAttachment && view.in_flight) return refuse();
      break;
    case Fault::kKeptForOwnersOnly:
      if (has_attachment && claim.attachment < newest &&
          claim.number.value_or(~uint64_t{0}) <= view.numbers.last_applied)
        return refuse();
      break;
    case Fault::kJoinedIsDisplaced:
      if (view.in_flight && claim.number.value_or(0) > view.numbers.last_applied &&
          seen_[session.get()].contains(*claim.number)) {
        claim.attachment = std::min<Attachment>(claim.attachment, 1);
      }
      break;
    case Fault::kStaleEpochServed:
      claim.owner_epoch.reset();
      break;
    default:
      break;
  }
  return true;
}

void FaultySessions::Change(const SessionPtr& session, Attachment attachment, bool has_deadline, Outcome& outcome) {
  const std::string reason = ReasonOf(outcome.status).value_or("");
  switch (fault_) {
    case Fault::kNumbersMissing:
      if (!outcome.status.ok()) outcome.numbers = {};
      break;
    case Fault::kTimeoutAfterCommit:
      if (outcome.status.ok() && has_deadline) outcome.status = absl::DeadlineExceededError("too late");
      break;
    case Fault::kResumeAheadOfApplied:
      if (!outcome.status.ok() && session->view().in_flight) ++outcome.numbers.last_applied;
      break;
    case Fault::kGapBehindRefusal:
      if (Contains(outcome.status, "before this one was refused")) {
        outcome.status = SessionError(absl::StatusCode::kOutOfRange, "NUMBER_TOO_HIGH", "the next one is another");
      }
      break;
    case Fault::kReasonsMixed:
      if (reason == "OLDER_OWNER") outcome.status = WithReason(outcome.status, "PREVIOUS_FAILED");
      break;
    case Fault::kRefusedTakesSession:
      if (reason == "NUMBER_TOO_HIGH" || reason == "TOO_MANY_IN_FLIGHT") taken_by_[session.get()] = attachment;
      break;
    case Fault::kRepetitionTakesSession:
      if (outcome.repeated) taken_by_[session.get()] = attachment;
      break;
    case Fault::kFencedTakesSession:
      if (reason == "FENCED") taken_by_[session.get()] = attachment;
      break;
    default:
      break;
  }
}

void FaultySessions::DisturbAnswer(const SessionPtr& session, Claim& claim) {
  const bool has_deadline = claim.deadline != absl::InfiniteDuration();
  claim.done = [this, session, attachment = claim.attachment, has_deadline,
                done = std::move(claim.done)](Outcome outcome) mutable {
    Change(session, attachment, has_deadline, outcome);
    done(std::move(outcome));
  };
}

void FaultySessions::Acquire(const SessionPtr& session, Claim&& claim) {
  const Session::View view = session->view();
  if (!DisturbOwner(session, view, claim) || !Disturb(session, view, claim)) return;
  DisturbAnswer(session, claim);
  real_->Acquire(session, std::move(claim));
}

}  // namespace rnnserve::sim
