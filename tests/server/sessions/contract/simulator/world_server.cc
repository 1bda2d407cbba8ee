// SPDX-License-Identifier: Apache-2.0
// The server's side: deliveries, the engine, time, and what the oracle says to all of it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/server/sessions/contract/simulator/world.h"

namespace rnnserve::sim {

absl::Duration World::Age() const {
  return age_ + std::clamp(clock_.Now() - swept_at_, absl::ZeroDuration(), options_.sweep_period);
}

void World::CountRequest(const Subject& subject, const Request& request) {
  const uint64_t applied = subject.oracle->last_applied();
  const size_t in_flight = subject.oracle->in_flight();
  if (!request.number) return Count(in_flight > 0 ? "unnumbered beside another" : "unnumbered alone");
  if (*request.number <= applied) return Count("number applied before");
  if (*request.number == applied + 1 && in_flight > 0) return Count("number of the computing operation");
  if (*request.number <= applied + in_flight) return Count("number of a queued operation");
  Count(*request.number == applied + in_flight + 1 ? "next number" : "number too high");
}

void World::Deliver(size_t index, uint64_t connection, const Request& delivered, bool to_oracle) {
  Subject& subject = subjects_[index];
  Request request = delivered;
  if (request.attachment != kNoAttachment) {
    Attachment& attachment = attachments_[connection][index];
    if (attachment == 0) attachment = sessions_->Attach();
    request.attachment = attachment;
  }
  if (to_oracle) {
    CountRequest(subject, request);
    const bool is_gone = !real_->Find(subject.key, "t").ok();
    if (is_gone && !subject.oracle->live()) subject.oracle->Forget();
    subject.oracle->Submit(request, clock_.Now(), Age());
    if (is_gone) {
      Count("operation after the end");
      const absl::Status ended = sessions_->Find(subject.key, "t").status();
      sim::Told told;
      told.code = ended.code();
      told.reason = ReasonOf(ended).value_or("");
      told.last_applied = NumbersOf(ended).value_or(Numbers{}).last_applied;
      told_[request.id] = told;
      return;
    }
  }
  Claim claim;
  claim.number = request.number;
  claim.digest = {request.content, request.closes};
  claim.attachment = request.attachment;
  claim.deadline = request.deadline;
  claim.owner_epoch = request.owner_epoch;
  if (request.fault != absl::StatusCode::kOk) claim.fault = absl::Status(request.fault, "as the simulator wants it");
  claim.closes = request.closes;
  claim.granted = [this, index, request, connection](Lease lease) {
    Granted(index, request, connection, std::move(lease));
  };
  claim.done = [this, id = request.id](Outcome outcome) { Told(id, outcome); };
  sessions_->Acquire(subject.session, std::move(claim));
}

void World::Granted(size_t index, const Request& request, uint64_t connection, Lease lease) {
  Subject& subject = subjects_[index];
  if (subject.oracle->running() != request.id) {
    Wrong(absl::StrCat("request ", request.id, " is computed, but the oracle has ",
                       subject.oracle->running().value_or(0), " at it"));
  }
  Job job{request.id, request.content, request.closes, request.number.has_value(), connection, {}};
  job.lease.emplace(std::move(lease));
  subject.jobs.erase(request.id);
  subject.jobs.emplace(request.id, std::move(job));
  const absl::Duration takes = absl::Milliseconds(Draw(0, quiet_ ? 3 : 60));
  Later(takes / 2, [this, index, id = request.id] { EngineHalfWay(index, id); });
  Later(takes, [this, index, id = request.id] { EngineDone(index, id); });
}

// A double that does not make a fresh state, but writes into the committed one.
void World::EngineHalfWay(size_t index, int request) {
  Subject& subject = subjects_[index];
  const auto job = subject.jobs.find(request);
  if (job == subject.jobs.end()) return;
  if (fault_ == Fault::kTornCommit) {
    auto& row = const_cast<State&>(*job->second.lease->state()->handles[0]);
    static_cast<Rows&>(row).log.push_back(job->second.content);
  }
  GlanceAt(index);
  Count("read while an operation computes");
}

void World::EngineDone(size_t index, int request) {
  Subject& subject = subjects_[index];
  const auto job = subject.jobs.find(request);
  if (job == subject.jobs.end()) return;  // its caller went, and it with it
  const bool ok = quiet_ || !Chance(6);
  const absl::StatusCode failure = Chance(50) ? absl::StatusCode::kInternal : absl::StatusCode::kResourceExhausted;
  if (!ok && subject.oracle->in_flight() > 1) Count("engine failure with others queued");
  subject.oracle->Finish(ok, failure, clock_.Now(), Age());
  End(index, request, ok || fault_ == Fault::kFailedTakesNumber, failure);
}

void World::End(size_t index, int request, bool ok, absl::StatusCode failure) {
  Subject& subject = subjects_[index];
  const auto found = subject.jobs.find(request);
  Job job = std::move(found->second);
  subject.jobs.erase(found);
  if (!ok) return (*std::move(job.lease)).Fail(absl::Status(failure, "as the simulator wants it"));
  Change change;
  change.position = job.lease->numbers().position + 1;
  change.reply = std::make_shared<TextReply>(absl::StrCat(job.lease->numbers().next_expected(), ":", job.content));
  change.closes = job.closes;
  auto state = std::make_shared<SessionState>();
  state->rows = 2;
  for (int row = 0; row < 2; ++row) {
    auto after = std::make_shared<Rows>();
    after->log = static_cast<const Rows&>(*job.lease->state()->handles[1]).log;
    after->log.push_back(job.content);
    state->handles.push_back(std::move(after));
  }
  change.state = std::move(state);
  (*std::move(job.lease)).Commit(std::move(change));
}

void World::GlanceAt(size_t index) {
  Subject& subject = subjects_[index];
  ReadRequest read;
  read.done = [this, &subject](absl::StatusOr<Snapshot> snapshot) {
    if (!snapshot.ok()) {
      if (subject.oracle->live()) Wrong(absl::StrCat("a read failed: ", snapshot.status().ToString()));
      return;
    }
    for (const auto& handle : snapshot->state->handles) {
      if (static_cast<const Rows&>(*handle).log != subject.oracle->log()) Wrong("the state is not what was applied");
    }
    if (snapshot->numbers.last_applied != subject.oracle->last_applied()) Wrong("a read tells another number");
  };
  sessions_->Read(subject.session, std::move(read));
}

void World::Sweep() {
  age_ = Age();
  swept_at_ = clock_.Now();
  for (Subject& subject : subjects_) {
    if (!subject.oracle->in_flight() && subject.oracle->MayExpire(age_)) continue;
    if (subject.oracle->in_flight() > 0) Count("sweep while work is in flight");
  }
  real_->Sweep();
  for (Subject& subject : subjects_) {
    const bool gone = !subject.session->view().live;
    if (!gone || !subject.oracle->live()) continue;
    if (!subject.oracle->MayExpire(age_)) Wrong("a session ended before its time");
    subject.oracle->Expire();
    Count("session expired");
  }
}

// The process stands still for a while, and looks at its sessions when it wakes.
void World::Stop() {
  const absl::Duration gap = absl::Seconds(Draw(5, 600));
  Count("process stopped");
  if (fault_ != Fault::kWakesToEndAll) {
    clock_.Move(gap);
    return Sweep();
  }
  for (absl::Duration passed; passed < gap; passed += options_.sweep_period) {
    clock_.Move(options_.sweep_period);
    real_->Sweep();
  }
  Sweep();
}

void World::Told(int request, const Outcome& outcome) {
  sim::Told told;
  told.code = outcome.status.code();
  told.reason = ReasonOf(outcome.status).value_or("");
  told.last_applied = outcome.numbers.last_applied;
  if (outcome.status.ok()) {
    told.number = outcome.number;
    told.reply = static_cast<const TextReply&>(*outcome.reply).text;
    told.repeated = outcome.repeated;
  } else if (fault_ == Fault::kAboveFailedComputed && ReasonOf(outcome.status) == "PREVIOUS_FAILED") {
    const Asked asked = asked_[request];
    Request again;
    again.id = request;
    again.number = outcome.numbers.last_applied + 1;
    again.attachment = 1;
    Later(absl::ZeroDuration(),
          [this, asked, again] { Deliver(asked.session, clients_[asked.client].connection, again, false); });
  }
  if (!told_.emplace(request, told).second) Wrong(absl::StrCat("request ", request, " is answered twice"));
  Count(absl::StrCat("answer ", absl::StatusCodeToString(told.code), told.repeated ? " from the window" : ""));
  if (absl::IsAborted(outcome.status)) Count(absl::StrCat("aborted: ", told.reason));
  if (outcome.status.message().find("before this one was refused") != absl::string_view::npos) {
    Count("refused behind another");
  }
  // A client goes on from what it is told.
  Client& client = clients_[asked_[request].client];
  if (!outcome.status.ok() && outcome.status.code() != absl::StatusCode::kResourceExhausted) {
    client.next = std::min(client.next, outcome.numbers.next_expected());
  }
}

void World::Compare(size_t index) {
  Subject& subject = subjects_[index];
  for (const auto& [request, expected] : subject.oracle->TakeAnswers()) {
    const auto told = told_.find(request);
    if (told == told_.end()) {
      Wrong(absl::StrCat("request ", request, " has no answer; expected ", expected.Text()));
    } else if (told->second != expected) {
      Wrong(absl::StrCat("request ", request, " was told ", told->second.Text(), "; expected ", expected.Text()));
    }
    told_.erase(request);
    asked_.erase(request);
  }
  for (const auto& [request, told] : told_) {
    if (asked_[request].session == index)
      Wrong(absl::StrCat("request ", request, " was told ", told.Text(), " too early"));
  }
  if (const std::optional<int> running = subject.oracle->running(); running && !subject.jobs.contains(*running)) {
    Wrong(absl::StrCat("request ", *running, " should be computing"));
  }
}

}  // namespace rnnserve::sim
