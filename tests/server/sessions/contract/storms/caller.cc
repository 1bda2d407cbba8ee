// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/contract/storms/caller.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rnnserve::storms {

Caller::Caller(const Terms& terms, Events* events, Figures* figures, std::vector<std::unique_ptr<Replica>>* replicas,
               size_t id)
    : terms_(terms),
      events_(events),
      figures_(figures),
      replicas_(replicas),
      id_(id),
      durability_(terms.mixed && id % 2 == 1 ? Durability::kInterval : terms.durability),
      backoff_(static_cast<uint32_t>(terms.seed * 1000 + id)),
      at_(id % terms.replicas) {
  for (uint64_t number = 1; number <= terms.operations; ++number) states_.push_back(After(states_.back(), number));
}

void Caller::Start() {
  (*replicas_)[at_]->Open(durability_, [this](std::string key) {
    key_ = std::move(key);
    BeginNext();
  });
}

// Callers keep their own time: one operation every so often, or as soon as the one before is answered.
void Caller::BeginNext() {
  if (is_done()) return;
  is_waiting_ = true;
  number_ = answered_ + 1;
  began_ = events_->Now();
  tried_ = 0;
  Try();
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
  const uint64_t number = number_;
  (*replicas_)[at_]->Apply(key_, number, [this, attempt, number](const Replica::Answer& answer) {
    events_->After(events_->Between(terms_.least_latency, terms_.most_latency), [this, attempt, number, answer] {
      // Whatever replica it comes from: a former owner's OK is as binding as the owner's.
      if (answer.outcome.status.ok() && answer.state != states_.at(number)) {
        figures_->Wrong(
            absl::StrCat("session ", id_, " number ", number, ": the state is not that of numbers 1 to it"));
      }
      Heard(attempt, answer);
    });
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
  const bool passes = absl::IsUnavailable(status) || absl::IsResourceExhausted(status) || reason == "TAKEN_OVER" ||
                      reason == "OLDER_OWNER" || absl::IsDeadlineExceeded(status);
  if (!passes) figures_->Wrong(absl::StrCat("session ", id_, " number ", number_, ": ", status.ToString()));
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
  if (number <= answered_) {  // replayed
    ++number_;
    return Try();
  }
  is_waiting_ = false;
  answered_ = number;
  ++figures_->answered;
  figures_->longest_stall = std::max(figures_->longest_stall, events_->Now() - began_);
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
  if (key_.empty() || is_done()) return;
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
  return absl::StrCat("session ", id_, ": ", answered_, " of ", terms_.operations, " answered");
}

}  // namespace rnnserve::storms
