// SPDX-License-Identifier: Apache-2.0
// Acceptance: which number means what. What happens to accepted operations is in session_flow.cc.
#include "server/sessions/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/telemetry/rejection.h"

namespace rnnserve {
namespace {

absl::Status Aborted(std::string_view reason, std::string_view message) {
  return SessionError(absl::StatusCode::kAborted, reason, message);
}

// More than was agreed at Open: the session's own limit, not the server's.
absl::Status TooManyInFlight(std::string_view message) {
  return WithRejection(SessionError(absl::StatusCode::kResourceExhausted, "TOO_MANY_IN_FLIGHT", message),
                       Rejection::kQuota);
}

}  // namespace

int64_t Session::Charge(const Terms& terms, const SessionState& state) {
  return kBytesPerSession + terms.max_in_flight * kBytesPerOperation + terms.window.bytes +
         terms.window.operations * Window::kBytesPerReply + state.bytes;
}

Session::Session(Start start, Terms terms, TenantBudget* budget, SessionSite* site)
    : key_(start.key),
      order_(start.order),
      name_(start.name.empty() ? nullptr : std::make_unique<const std::string>(std::move(start.name))),
      terms_(terms),
      subject_(std::move(start.subject)),
      budget_(budget),
      site_(site),
      state_(std::move(start.state)),
      numbers_(start.numbers),
      charged_(state_->bytes),
      charged_for_terms_(Charge(terms, SessionState{})),
      last_used_(site->aging->Now()) {
  CountLife(1);
  if (subject_->counters() != nullptr) subject_->counters()->opened->Add();
}

Session::~Session() {
  if (live_) {
    CountLife(-1);
    budget_->GiveBackBytes(charged_);
    budget_->GiveBackSession();
  }
  if (!forgotten_) budget_->GiveBackBytes(charged_for_terms_);
}

void Session::Acquire(Claim claim) {
  std::unique_lock lock(mutex_);
  last_used_ = site_->aging->Now();
  absl::Status judged = Attach(claim) ? Judge(claim)
                                      : Aborted("OLDER_OWNER",
                                                "a newer stream or call owns the session; open a new stream to take "
                                                "it back, and go on at next_expected");
  if (!judged.ok()) Refuse(std::move(claim.done), std::move(judged));
  Drive(lock);
}

// The newest attachment owns the session at once; what older ones have queued is not computed any more. A half-open
// connection never blocks its successor.
bool Session::Attach(const Claim& claim) {
  const Attachment attachment = claim.attachment;
  if (attachment == kNoAttachment || attachment == owner_) return true;
  if (attachment < owner_) return false;
  const bool resumes = claim.of_stream && (owner_ != kNoAttachment || numbers_.last_applied > 0);
  if (resumes && subject_->counters() != nullptr) subject_->counters()->resumed->Add();
  owner_ = attachment;
  AbortQueued(
      in_flight_.begin(),
      Aborted("OLDER_OWNER", "a newer stream or call took the session over before this operation was computed"));
  return true;
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

// OK: the claim has been taken in, or answered.
absl::Status Session::Judge(Claim& claim) {
  if (!claim.number) {
    if (!live_) return EndedSession(cause_);
    if (last_accepted() != numbers_.last_applied) {
      return SessionError(
          absl::StatusCode::kFailedPrecondition, "OPERATION_IN_FLIGHT",
          "an operation without a number takes the session alone, and another one is in flight; wait for "
          "its reply, or number the operations");
    }
    return Accept(claim);
  }
  const uint64_t number = *claim.number;
  if (number == 0) {
    return SessionError(absl::StatusCode::kInvalidArgument, "NUMBER_ZERO",
                        "the operation's number is 0; numbers start at 1");
  }
  if (number <= last_accepted()) return JudgeKnown(claim, number);
  if (!live_) return EndedSession(cause_);
  if (number == last_accepted() + 1) return Accept(claim);
  return SessionError(absl::StatusCode::kOutOfRange, "NUMBER_TOO_HIGH",
                      absl::StrCat("the operation has number ", number, ", but the next one is ", last_accepted() + 1,
                                   "; send those in between first"));
}

// Numbers that have come before: joined while in flight, answered from the window afterwards.
absl::Status Session::JudgeKnown(Claim& claim, uint64_t number) {
  const auto reused = [&] {
    return Aborted("NUMBER_REUSED", absl::StrCat("number ", number,
                                                 " has been used for an operation of other content; "
                                                 "new operations go on at next_expected"));
  };
  if (number > numbers_.last_applied) {
    Entry& entry = *FindInFlight(number);
    if (!entry.is_numbered || entry.claim.digest != claim.digest) return reused();
    if (answers_due_ >= 2 * terms_.max_in_flight) {
      return TooManyInFlight(absl::StrCat(answers_due_,
                                          " callers wait for this session's operations already; send this "
                                          "repetition again later"));
    }
    ++answers_due_;
    entry.waiting.push_back(std::move(claim.done));
    if (subject_->counters() != nullptr) subject_->counters()->repeated->Add();
    return absl::OkStatus();
  }
  const Window::Kept* kept = window_.Find(number);
  if (kept == nullptr) {
    if (!live_) return EndedSession(cause_);
    return SessionError(
        absl::StatusCode::kAlreadyExists, "NUMBER_TOO_OLD",
        absl::StrCat("number ", number, " was applied, but its reply is not kept any more (the window holds ",
                     terms_.window.operations, " replies and ", terms_.window.bytes, " bytes)"));
  }
  if (kept->digest != claim.digest) return reused();
  if (subject_->counters() != nullptr) subject_->counters()->repeated->Add();
  calls_.push_back([done = std::move(claim.done),
                    outcome = Outcome{absl::OkStatus(), kept->numbers, number, kept->reply, true}]() mutable {
    done(std::move(outcome));
  });
  return absl::OkStatus();
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

absl::Status Session::Accept(Claim& claim) {
  if (!claim.fault.ok()) return std::move(claim.fault);
  if (site_->draining.load(std::memory_order_relaxed) && !claim.closes) {
    return SessionError(absl::StatusCode::kUnavailable, "DRAINING",
                        "the server is leaving: fetch the state with GetState and go on with it on another server");
  }
  if (answers_due_ >= terms_.max_in_flight) {
    return TooManyInFlight(absl::StrCat("the session has ", answers_due_,
                                        " operations in flight, as many as were agreed at "
                                        "Open; wait for a reply"));
  }
  if (claim.number) {
    if (absl::Status fits = CheckFits(claim.reply_bytes); !fits.ok()) return fits;
  }
  Entry entry;
  entry.is_change = true;
  entry.is_numbered = claim.number.has_value();
  entry.number = last_accepted() + 1;
  entry.waiting.push_back(std::move(claim.done));
  entry.claim = std::move(claim);
  in_flight_.push_back(std::move(entry));
  ++answers_due_;
  if (in_flight_.size() > 1) WatchTimeout(in_flight_.back());
  return absl::OkStatus();
}

void Session::Look(Glance glance) {
  std::unique_lock lock(mutex_);
  const auto refuse = [&](absl::Status status) {
    calls_.push_back([done = std::move(glance.done), status = WithNumbers(std::move(status), numbers_)]() mutable {
      done(std::move(status));
    });
    Drive(lock);
  };
  if (!live_) return refuse(EndedSession(cause_));
  last_used_ = site_->aging->Now();
  const uint64_t wanted = glance.after_number ? *glance.after_number
                          : glance.in_order   ? last_accepted()
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
    AnswerGlance(glance);
    return Drive(lock);
  }
  if (answers_due_ >= 2 * terms_.max_in_flight) {
    return refuse(TooManyInFlight(absl::StrCat("the session has ", answers_due_, " answers due; wait for some")));
  }
  auto place =
      std::find_if(in_flight_.begin(), in_flight_.end(), [&](const Entry& entry) { return entry.number > wanted; });
  Entry entry;
  entry.number = wanted;
  entry.glance = std::move(glance);
  in_flight_.insert(place, std::move(entry));
  ++answers_due_;
  Drive(lock);
}

Session::View Session::view() const {
  const absl::Duration now = site_->aging->Now();
  std::lock_guard lock(mutex_);
  View view;
  view.live = live_;
  view.cause = cause_;
  view.numbers = numbers_;
  view.in_flight = !in_flight_.empty();
  view.idle = view.in_flight ? absl::ZeroDuration() : now - last_used_;
  view.rows = live_ ? state_->rows : 0;
  view.state_bytes = live_ ? state_->bytes : 0;
  view.carried_over = carried_over_;
  return view;
}

}  // namespace rnnserve
