// SPDX-License-Identifier: Apache-2.0
// Records of a durable session: when one is written, and what follows from the store's answer. At most one write is on
// its way. A write that succeeds shows that no other process has the session; one that another process' fence refuses
// ends it here.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/contract/session.h"
#include "server/sessions/contract/session_records.h"

namespace rnnserve {

// Of kInterval. Without numbers a caller could not send again what a takeover lost.
absl::Status Session::CheckUndurable(const Claim& claim) const {
  if (!claim.number) {
    return SessionError(absl::StatusCode::kInvalidArgument, "NUMBER_MISSING",
                        "a session of durability INTERVAL takes numbered operations only, so that those which no "
                        "record has can be sent again; number them, or open the session with durability SYNC");
  }
  const uint64_t behind = last_accepted() - stored_->durable_number;
  if (behind < kMostUndurable) return absl::OkStatus();
  return SessionError(absl::StatusCode::kUnavailable, "STORE_BEHIND",
                      absl::StrCat("the session store lacks the last ", behind,
                                   " operations of this session, as many as it may; send this one again later"));
}

bool Session::IsWrittenFirst(const Change& change) const {
  return terms_.durability == Durability::kSync || (is_durable() && change.closes);
}

// Numbers that only this copy has (kInterval) may be other operations where the session is now, or not be applied
// there.
bool Session::MayBeOld(const Claim& claim, const absl::Status& refusal) const {
  if (stored_ == nullptr || !live_) return false;
  if (claim.number && *claim.number > stored_->durable_number && absl::IsAlreadyExists(refusal)) return true;
  return absl::IsOutOfRange(refusal) || (claim.owner_epoch && *claim.owner_epoch > owner_epoch_);
}

// Claims behind one that is held are held, too, so that they keep their order.
void Session::HoldClaim(Claim&& claim) {
  if (static_cast<int32_t>(stored_->held.size()) >= 2 * terms_.max_in_flight) {
    return Refuse(std::move(claim.done), TooManyInFlight("many operations of this session wait for the session store; "
                                                         "send this one again later"));
  }
  stored_->held.push_back(std::move(claim));
  if (stored_->held.size() > 1) return;
  stored_->asked.emplace_back(
      [session = shared_from_this()](const absl::Status& written) { session->AdmitHeld(written); });
  WriteIfDue();
}

void Session::AdmitHeld(const absl::Status& written) {
  MutexLock lock(mutex_);
  for (Claim& claim : std::exchange(stored_->held, {})) {
    absl::Status admitted = written.ok() || !live_ ? Admit(claim) : written;
    if (!admitted.ok()) Refuse(std::move(claim.done), std::move(admitted));
  }
  Drive();
}

// While the store is away a session of kInterval tells what it has, as it goes on with that.
void Session::AnswerWhenNewest(SnapshotDone done, Snapshot snapshot) {
  const bool tells_without = terms_.durability == Durability::kInterval;
  stored_->asked.emplace_back(
      [done = std::move(done), snapshot = std::move(snapshot), tells_without](const absl::Status& written) mutable {
        if (written.ok() || (tells_without && absl::IsUnavailable(written))) return done(std::move(snapshot));
        done(WithNumbers(written, snapshot.numbers));
      });
  WriteIfDue();
}

void Session::Persist(PersistDone done) {
  MutexLock lock(mutex_);
  if (stored_ == nullptr || !live_) {
    absl::Status status = stored_ == nullptr ? absl::OkStatus() : EndedSession(cause_);
    lock.unlock();
    return done(std::move(status));
  }
  stored_->asked.push_back(std::move(done));
  WriteIfDue();
  Drive();
}

void Session::KeepRecord() {
  stored_->asked.emplace_back([](const absl::Status&) {});
  WriteIfDue();
  Drive();
}

void Session::WriteIfDue() {
  if (stored_->is_writing) return;
  if (stored_->pending || !stored_->asked.empty()) return StartWrite();
  if (undurable() == 0) {
    stored_->undurable_since = absl::InfiniteDuration();
    return;
  }
  const absl::Duration now = site_->clock->Now();
  if (stored_->undurable_since == absl::InfiniteDuration()) stored_->undurable_since = now;
  const absl::Duration due = stored_->undurable_since + kTimeARecord;
  const bool is_leaving = site_->draining.load(std::memory_order_relaxed);
  if (undurable() >= kOperationsARecord || now >= due || is_leaving) return StartWrite();
  site_->timeouts->Add(due, shared_from_this());
}

SessionRecord Session::RecordNow() const {
  SessionRecord record = {.key = key_,
                          .tenant = budget_->tenant(),
                          .name = std::string(name()),
                          .subject = subject_,
                          .state = state_,
                          .numbers = numbers_,
                          .owner_epoch = owner_epoch_,
                          .terms = terms_,
                          .last = {}};
  if (const Window::Kept* last = window_.Find(numbers_.last_applied)) record.last = *last;
  if (!stored_->pending) return record;
  const Entry& first = in_flight_.front();
  const Change& change = *stored_->pending;
  record.state = change.closes ? nullptr : change.state;
  record.numbers = {first.number, change.position};
  record.last.reset();
  if (first.claim.number && terms_.window.operations > 0) {
    record.last = Window::Kept{first.number, first.claim.digest, record.numbers, change.reply};
  }
  return record;
}

void Session::StartWrite() {
  stored_->is_writing = true;
  stored_->undurable_since = absl::InfiniteDuration();
  SessionRecords::WriteRequest request = {.record = RecordNow(),
                                          .fence = stored_->fence,
                                          .create = !stored_->has_record,
                                          .within = SessionRecords::kTimeout};
  if (stored_->pending) {
    request.within = std::min(request.within, in_flight_.front().claim.deadline - site_->clock->Now());
  }
  Write write = {request.record.numbers.last_applied, stored_->pending.has_value(), {}};
  // What is asked may wait for longer than the operation: the next write is for it.
  if (request.within == SessionRecords::kTimeout) write.asked = std::exchange(stored_->asked, {});
  calls_.emplace_back([session = shared_from_this(), request = std::move(request), write = std::move(write)]() mutable {
    SessionRecords* const records = session->site_->records;
    records->Write(std::move(request),
                   [session, write = std::move(write)](const absl::StatusOr<SessionStore::Written>& written) mutable {
                     session->Written(std::move(write), written);
                   });
  });
}

void Session::Written(Write write, const absl::StatusOr<SessionStore::Written>& written) {
  const absl::Status& status = written.status();
  const bool is_moved = absl::IsAborted(status);
  const absl::Status told = status.ok() ? status : is_moved ? EndedSession(EndCause::kMoved) : StoreUnavailable(status);
  SessionStatePtr before;  // destroyed, and zeroed, after the lock is released
  MutexLock lock(mutex_);
  stored_->is_writing = false;
  if (written.ok() && std::exchange(stored_->has_record, true) && written->was_missing) site_->record_lost = true;
  if (live_ && is_moved) {
    End(EndCause::kMoved);
  } else if (live_) {
    if (status.ok()) stored_->durable_number = std::max(stored_->durable_number, write.number);
    if (write.has_pending) {
      Change change = *std::exchange(stored_->pending, std::nullopt);
      const int64_t growth = GrowthOf(change);  // has been charged for
      if ((growth < 0) == status.ok()) (void)Recharge(status.ok() ? growth : -growth);
      if (status.ok()) {
        before = ApplyChange(std::move(change));
      } else {
        FailGranted(told);
      }
    }
  }
  for (PersistDone& done : write.asked) {
    calls_.emplace_back([done = std::move(done), told]() mutable { done(told); });
  }
  if (live_ && status.ok()) WriteIfDue();
  if (live_ && !status.ok()) WriteLater();
  Drive();
}

// The store is away. What waits for an answer gets one soon: each write has its own time limit.
void Session::WriteLater() {
  if (stored_->pending || !stored_->asked.empty()) return StartWrite();
  if (undurable() == 0) return;
  stored_->undurable_since = site_->clock->Now();
  site_->timeouts->Add(stored_->undurable_since + kTimeARecord, shared_from_this());
}

// Of a session that ends: what waits for the store waits no longer.
void Session::EndStored() {
  stored_->pending.reset();
  for (PersistDone& done : std::exchange(stored_->asked, {})) {
    calls_.emplace_back([done = std::move(done), status = EndedSession(cause_)]() mutable { done(std::move(status)); });
  }
}

}  // namespace rnnserve
