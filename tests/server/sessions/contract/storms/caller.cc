// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/contract/storms/caller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve::storms {
namespace {

// Whether the same is to be sent again.
bool Passes(const absl::Status& status) {
  const std::string reason = ReasonOf(status).value_or("");
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status) ||
         reason == "TAKEN_OVER" || reason == "OLDER_OWNER" || reason == "PREVIOUS_FAILED";
}

}  // namespace

Caller::Caller(const Terms& terms, Events* events, Figures* figures, std::vector<std::unique_ptr<Replica>>* replicas,
               size_t id)
    : terms_(terms),
      events_(events),
      figures_(figures),
      replicas_(replicas),
      id_(id),
      durability_(terms.mixed && id % 2 == 1 ? Durability::kInterval : terms.durability),
      backoff_(static_cast<uint32_t>(terms.seed * 1000 + id)),
      name_(terms.rounds > 0 ? absl::StrCat("name ", id) : ""),
      at_(id % terms.replicas) {}

void Caller::OpenRound() {
  ++round_;
  key_.clear();
  states_ = {0};
  for (uint64_t number = 1; number <= last(); ++number) states_.push_back(After(states_.back(), ContentOf(number)));
  answered_ = durable_ = 0;
  has_sent_close_ = false;
  attaches_ = has_rounds() && events_->Draw(2) == 0;
  is_opening_ = true;
  Want();
}

void Caller::Want() {
  is_waiting_ = true;
  began_ = events_->Now();
  tried_ = 0;
  Try();
}

// Callers keep their own time: one operation every so often, or as soon as the one before is answered.
void Caller::BeginNext() {
  number_ = answered_ + 1;
  if (has_rounds() && events_->Draw(8) == 0) is_opening_ = attaches_ = true;
  Want();
}

void Caller::Try() {
  const uint64_t attempt = ++attempt_;
  ++figures_->tries;
  if (!(*replicas_)[at_]->is_alive()) {  // refused
    ChooseOther();
    return TryLater();
  }
  events_->After(events_->Between(terms_.least_latency, terms_.most_latency), [this, attempt] { Send(attempt); });
  events_->After(terms_.silence, [this, attempt] {
    if (attempt == attempt_) Break();
  });
}

void Caller::Send(uint64_t attempt) {
  if (attempt != attempt_) return;
  if (is_opening_) return SendOpen(attempt);
  const uint64_t number = number_;
  const Replica::Operation operation = {number, ContentOf(number), has_rounds() && number == last()};
  if (operation.closes && !std::exchange(has_sent_close_, true)) is_free_ = opens_ == 0;
  (*replicas_)[at_]->Apply(
      key_, operation, [this, attempt, number, state = states_.at(number)](const Replica::Answer& answer) {
        events_->After(
            events_->Between(terms_.least_latency, terms_.most_latency), [this, attempt, number, state, answer] {
              // Whatever replica it comes from: a former owner's OK is as binding as the owner's.
              if (answer.outcome.status.ok() && answer.state != state) {
                figures_->Wrong(
                    absl::StrCat("session ", id_, " number ", number, ": the state is not that of numbers 1 to it"));
              }
              Heard(attempt, answer);
            });
      });
}

void Caller::SendOpen(uint64_t attempt) {
  ++opens_;
  (*replicas_)[at_]->Open({durability_, name_, attaches_}, [this, attempt](absl::StatusOr<Replica::Opened> opened) {
    events_->After(events_->Between(terms_.least_latency, terms_.most_latency),
                   [this, attempt, opened = std::move(opened)] {
                     --opens_;
                     if (attempt != attempt_) return;
                     ++attempt_;
                     HeardOpen(opened);
                   });
  });
}

void Caller::HeardOpen(const absl::StatusOr<Replica::Opened>& opened) {
  if (opened.ok()) {
    CheckOpened(*opened);
    key_ = opened->key;
    is_opening_ = false;
    number_ = answered_ + 1;
    return Want();
  }
  const absl::Status& status = opened.status();
  if (ReasonOf(status) == "NAME_TAKEN") {
    // An earlier try may have made it after the Close.
    if (attaches_ || (is_free_ && tried_ == 0)) {
      figures_->Wrong(absl::StrCat("session ", id_, " round ", round_, ": the name is taken by no session"));
    }
    attaches_ = true;
    return TryLater();
  }
  if (!Passes(status)) figures_->Wrong(absl::StrCat("session ", id_, " Open: ", status.ToString()));
  TryLater();
}

// A closed session never comes back, and one that lives is as it was.
void Caller::CheckOpened(const Replica::Opened& opened) {
  const uint64_t kept = durability_ == Durability::kSync ? answered_ : durable_;
  const bool is_known = !key_.empty();
  if (closed_.contains(opened.key)) figures_->Wrong(absl::StrCat("session ", id_, " was closed, and lives"));
  if (is_known && opened.key != key_) figures_->Wrong(absl::StrCat("session ", id_, " is another one by its name"));
  if (opened.last_applied < kept || opened.last_applied > answered_) {
    figures_->Wrong(absl::StrCat("session ", id_, " round ", round_, ": opened at ", opened.last_applied, ", where ",
                                 answered_, " were answered"));
  }
  if (is_known) ++figures_->attached;
}

void Caller::EndRound() {
  closed_.insert(key_);
  if (round_ == terms_.rounds) {
    is_done_ = true;
    return;
  }
  ++figures_->reopened;
  if (events_->Draw(2) == 0) {
    events_->After(events_->Between(absl::ZeroDuration(), absl::Seconds(4)), [this] { Probe(); });
  }
  OpenRound();
}

void Caller::Probe() {
  Replica& replica = *(*replicas_)[events_->Draw(terms_.replicas)];
  if (!replica.is_alive()) return;
  ++figures_->probed;
  const std::string key = *std::next(closed_.begin(), static_cast<int64_t>(events_->Draw(closed_.size())));
  replica.Apply(key, {last() + 1, ~uint64_t{0}, false}, [this](const Replica::Answer& answer) {
    const absl::Status& status = answer.outcome.status;
    if (Passes(status) || ReasonOf(status) == "SESSION_ENDED") return;
    figures_->Wrong(absl::StrCat("a closed session of ", id_, " answers ", status.ToString()));
  });
}

void Caller::Heard(uint64_t attempt, const Replica::Answer& answer) {
  if (attempt != attempt_) return;
  ++attempt_;
  const absl::Status& status = answer.outcome.status;
  if (status.ok()) return HeardOk(number_, answer);
  const std::string reason = ReasonOf(status).value_or("");
  if (reason == "NUMBER_TOO_HIGH") return GoBackTo(answer.outcome.numbers.next_expected());
  // The record had more than was told, or a former owner answers from its copy, which its next write will show.
  if (reason == "NUMBER_TOO_OLD" && number_ <= answered_) {
    ++number_;
    return Try();
  }
  // By an earlier try of this Close.
  if (reason == "SESSION_ENDED" && has_sent_close_) return EndRound();
  if (!Passes(status)) figures_->Wrong(absl::StrCat("session ", id_, " number ", number_, ": ", status.ToString()));
  TryLater();
}

void Caller::HeardOk(uint64_t number, const Replica::Answer& answer) {
  tried_ = 0;
  durable_ = std::max(durable_, answer.outcome.durable_number);
  if (durability_ == Durability::kInterval && number > durable_ + kMostUndurable) {
    figures_->Wrong(absl::StrCat("session ", id_, " has ", number - durable_, " operations that no record has"));
  }
  if (durability_ == Durability::kSync && durable_ < number) {
    figures_->Wrong(absl::StrCat("session ", id_, " number ", number, " was answered and is not durable"));
  }
  if (number == last() && has_rounds()) {
    ++figures_->answered;
    return EndRound();
  }
  if (number <= answered_) {  // replayed
    ++number_;
    return Try();
  }
  is_waiting_ = false;
  answered_ = number;
  ++figures_->answered;
  figures_->longest_stall = std::max(figures_->longest_stall, events_->Now() - began_);
  if (answered_ == last()) {
    is_done_ = true;
    return;
  }
  const absl::Duration pause = std::max(began_ + terms_.every - events_->Now(), absl::ZeroDuration());
  events_->After(pause, [this] { BeginNext(); });
}

void Caller::GoBackTo(uint64_t next_expected) {
  const uint64_t kept = durability_ == Durability::kSync ? answered_ : durable_;
  if (next_expected <= kept) {
    return figures_->Wrong(
        absl::StrCat("session ", id_, ": ", next_expected, " is expected, and ", kept, " was durable"));
  }
  figures_->replayed += static_cast<int64_t>(number_ - next_expected);
  number_ = next_expected;
  Try();
}

void Caller::TryLater() {
  const uint64_t attempt = ++attempt_;
  const int64_t pause = terms_.fault == Fault::kTriesAtOnce ? 0 : backoff_.After(tried_++).count();
  events_->After(absl::Milliseconds(pause) + absl::Microseconds(1), [this, attempt] {
    if (attempt == attempt_) Try();
  });
}

void Caller::Break() {
  if (is_done()) return;
  ChooseOther();
  if (is_waiting_) TryLater();
}

void Caller::Gone(size_t replica) {
  if (at_ == replica) Break();
}

void Caller::ChooseOther() {
  const size_t before = at_;
  while (at_ == before) at_ = events_->Draw(terms_.replicas);
}

std::string Caller::Where() const {
  return absl::StrCat("session ", id_, ": ", answered_, " of ", terms_.operations, " answered, round ", round_);
}

}  // namespace rnnserve::storms
