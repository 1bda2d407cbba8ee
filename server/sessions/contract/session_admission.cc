// SPDX-License-Identifier: Apache-2.0
// Which number means what, and which caller may change the session. What happens to accepted operations is in
// session_flow.cc.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/contract/session.h"

namespace rnnserve {
namespace {

// Whether the reason is temporary: the server is busy or drains.
bool WillPass(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsResourceExhausted(status); }

}  // namespace

void Session::Acquire(Claim&& claim) {
  MutexLock lock(mutex_);
  last_used_ = site_->aging->Now();
  if (stored_ != nullptr && !stored_->held.empty()) {
    HoldClaim(std::move(claim));
    return Drive();
  }
  absl::Status admitted = Admit(claim);
  if (!admitted.ok() && MayBeOld(claim, admitted)) {
    HoldClaim(std::move(claim));
    return Drive();
  }
  if (!admitted.ok()) Refuse(std::move(claim.done), std::move(admitted));
  Drive();
}

uint64_t Session::last_accepted() const {
  for (auto entry = in_flight_.rbegin(); entry != in_flight_.rend(); ++entry) {
    if (entry->is_change) return entry->number;
  }
  return numbers_.last_applied;
}

Session::Entry* Session::FindInFlight(uint64_t number) {
  for (Entry& entry : in_flight_) {
    if (entry.is_change && entry.number == number) return &entry;
  }
  return nullptr;
}

// OK: the claim has been taken in, or answered. Repetitions are answered to every caller that has the key; operations
// that would change the session are accepted from its owner, or from a newer caller, which owns it from then on unless
// the operation fails.
absl::Status Session::Admit(Claim& claim) {
  const uint64_t number = claim.number.value_or(0);
  if (claim.number && number == 0) {
    return SessionError(absl::StatusCode::kInvalidArgument, "NUMBER_ZERO",
                        "the operation's number is 0; numbers start at 1");
  }
  if (live_ && IsFenced(claim) && !IsRepetition(claim)) return Fenced(*claim.owner_epoch, owner_epoch_);
  if (claim.number && number <= numbers_.last_applied) return RepeatReply(claim);
  const uint64_t last = last_accepted();
  const EntryIterator displaced = FirstDisplaced(claim);
  const uint64_t next = displaced == in_flight_.end() ? last + 1 : displaced->number;
  if (claim.number && number <= last) {
    Entry& entry = *FindInFlight(number);
    if (number != next || IsRepetition(claim)) return JoinInFlight(claim, entry);
  }
  if (!live_) return EndedSession(cause_);
  if (claim.attachment != kNoAttachment && claim.attachment < owner_) {
    return OlderOwner("a newer stream or call owns the session");
  }
  if (!claim.number && last != numbers_.last_applied) {
    return SessionError(absl::StatusCode::kFailedPrecondition, "OPERATION_IN_FLIGHT",
                        "an operation without a number takes the session alone, and another one is in flight; wait for "
                        "its reply, or number the operations");
  }
  if (claim.number && number > next) return TooHigh(number, next);
  return Accept(claim, displaced);
}

bool Session::IsRepetition(const Claim& claim) {
  if (!claim.number) return false;
  if (const Window::Kept* kept = window_.Find(*claim.number)) return kept->digest == claim.digest;
  const Entry* entry = *claim.number > numbers_.last_applied ? FindInFlight(*claim.number) : nullptr;
  return entry != nullptr && entry->claim.number && entry->claim.digest == claim.digest;
}

// The newest attachment owns the session at once; what older ones have queued is not computed any more, unless the new
// owner has asked for it, too. A half-open connection never blocks its successor.
Session::EntryIterator Session::FirstDisplaced(const Claim& claim) {
  if (claim.attachment == kNoAttachment || claim.attachment <= owner_) return in_flight_.end();
  return std::find_if(in_flight_.begin(), in_flight_.end(), [&](const Entry& entry) {
    return entry.is_change && !entry.is_granted && entry.wanted_by < claim.attachment;
  });
}

void Session::TakeOver(const Claim& claim, EntryIterator displaced) {
  const Attachment attachment = claim.attachment;
  if (attachment == kNoAttachment || attachment == owner_) return;
  const bool resumes = claim.of_stream && (owner_ != kNoAttachment || numbers_.last_applied > 0);
  if (resumes && subject_->counters() != nullptr) subject_->counters()->resumed->Add();
  owner_ = attachment;
  if (displaced == in_flight_.end()) return;
  AbortQueued(displaced, OlderOwner("a newer stream or call took the session over before this operation was computed"));
}

void Session::Release() {
  owner_ = applied_by_;
  for (const Entry& entry : in_flight_) owner_ = std::max(owner_, entry.claim.attachment);
}

// Numbers that have come before: joined while in flight.
absl::Status Session::JoinInFlight(Claim& claim, Entry& entry) {
  if (!entry.claim.number || entry.claim.digest != claim.digest) return NumberReused(entry.number);
  if (answers_due_ >= 2 * terms_.max_in_flight) {
    return TooManyInFlight(absl::StrCat(answers_due_,
                                        " callers wait for this session's operations already; send this "
                                        "repetition again later"));
  }
  ++answers_due_;
  entry.waiting.push_back(std::move(claim.done));
  entry.wanted_by = std::max(entry.wanted_by, claim.attachment);
  if (subject_->counters() != nullptr) subject_->counters()->repeated->Add();
  return absl::OkStatus();
}

// Answered from the window afterwards.
absl::Status Session::RepeatReply(Claim& claim) {
  const uint64_t number = *claim.number;
  const Window::Kept* kept = window_.Find(number);
  if (kept == nullptr) {
    if (!live_) return EndedSession(cause_);
    return SessionError(
        absl::StatusCode::kAlreadyExists, "NUMBER_TOO_OLD",
        absl::StrCat("number ", number, " was applied, but its reply is not kept any more (the window holds ",
                     terms_.window.operations, " replies and ", terms_.window.bytes, " bytes)"));
  }
  if (kept->digest != claim.digest) return NumberReused(number);
  if (subject_->counters() != nullptr) subject_->counters()->repeated->Add();
  calls_.push_back(AnswerCall{std::move(claim.done), Outcome{absl::OkStatus(), kept->numbers, number, kept->reply,
                                                             /*repeated=*/true, durable_number()}});
  return absl::OkStatus();
}

absl::Status Session::TooHigh(uint64_t number, uint64_t next) {
  if (refused_ != nullptr && refused_->next == next && number <= refused_->last + 1) {
    refused_->last = std::max(refused_->last, number);
    return Behind(next, refused_->why);
  }
  return SessionError(absl::StatusCode::kOutOfRange, "NUMBER_TOO_HIGH",
                      absl::StrCat("the operation has number ", number, ", but the next one is ", next,
                                   "; send those in between first"));
}

absl::Status Session::CheckFits(int64_t reply_bytes) const {
  if (terms_.window.Fits(reply_bytes)) return absl::OkStatus();
  return TooLarge(
      absl::StrCat("the reply would take ", reply_bytes, " bytes of the window, which has ", terms_.window.bytes,
                   "; ask for fewer outputs or steps at a time, or open the "
                   "session with window_bytes of at least ",
                   reply_bytes),
      {.limit = terms_.window.bytes, .value = reply_bytes});
}

absl::Status Session::CheckAcceptable(Claim& claim, EntryIterator displaced) const {
  if (!claim.fault.ok()) return std::move(claim.fault);
  if (site_->draining.load(std::memory_order_relaxed) && !claim.closes && !terms_.stays_on_drain) {
    return SessionError(absl::StatusCode::kUnavailable, "DRAINING",
                        is_durable() ? "the server is leaving: go on with the same session on another server"
                                     : "the server is leaving: fetch the state with GetState and go on with it on "
                                       "another server");
  }
  if (terms_.durability == Durability::kInterval) {
    if (absl::Status goes_on = CheckUndurable(claim); !goes_on.ok()) return goes_on;
  }
  int32_t due = answers_due_;
  for (Entries::const_iterator entry = displaced; entry != in_flight_.end(); ++entry) {
    due -= static_cast<int32_t>(entry->waiting.size());
  }
  if (due >= terms_.max_in_flight) {
    return TooManyInFlight(absl::StrCat("the session has ", due,
                                        " operations in flight, as many as were agreed at "
                                        "Open; wait for a reply"));
  }
  return claim.number ? CheckFits(claim.reply_bytes) : absl::OkStatus();
}

absl::Status Session::Accept(Claim& claim, EntryIterator displaced) {
  if (absl::Status acceptable = CheckAcceptable(claim, displaced); !acceptable.ok()) {
    if (claim.number) RememberRefused(*claim.number, *claim.number, acceptable);
    return acceptable;
  }
  TakeOver(claim, displaced);
  refused_.reset();
  const uint64_t number = last_accepted() + 1;
  Entry& entry = in_flight_.emplace_back();
  entry.is_change = true;
  entry.number = number;
  entry.waiting.push_back(std::move(claim.done));
  entry.wanted_by = claim.attachment;
  entry.claim = std::move(claim);
  ++answers_due_;
  if (in_flight_.size() > 1) WatchTimeout(in_flight_.back());
  return absl::OkStatus();
}

void Session::RememberRefused(uint64_t next, uint64_t last, const absl::Status& why) {
  if (!WillPass(why)) return;
  if (refused_ != nullptr && refused_->next == next) last = std::max(last, refused_->last);
  refused_ = std::make_unique<Refused>(Refused{next, last, why});
}

Numbers Session::NoteRefused(std::optional<uint64_t> number, const absl::Status& why) {
  const MutexLock lock(mutex_);
  last_used_ = site_->aging->Now();
  if (!number || *number <= numbers_.last_applied) return numbers_;
  const uint64_t next = last_accepted() + 1;
  if (*number == next) RememberRefused(next, next, why);
  if (refused_ != nullptr && refused_->next == next && *number == refused_->last + 1) refused_->last = *number;
  return numbers_;
}

}  // namespace rnnserve
