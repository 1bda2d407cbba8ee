// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/contract/storms/replica.h"

#include <algorithm>
#include <utility>

namespace rnnserve::storms {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(10);
constexpr absl::Duration kTimeout = absl::Seconds(10);  // of an operation
constexpr char kTenant[] = "t";

class NumberState final : public State {
 public:
  explicit NumberState(uint64_t held) : value(held) {}
  const uint64_t value;
};

class NumberReply final : public KeptReply {
 public:
  explicit NumberReply(uint64_t said) : value(said) {}
  int64_t bytes() const override { return 600; }
  const uint64_t value;
};

SessionStatePtr StateOf(uint64_t value) {
  auto state = std::make_shared<SessionState>();
  state->handles.push_back(std::make_shared<NumberState>(value));
  state->bytes = 1024;
  return state;
}

MemorySessions::Options OptionsOf() {
  MemorySessions::Options options;
  options.keys.secrets = {std::string(32, 's')};
  return options;
}

Replica::Answer Refused(absl::Status why) {
  Replica::Answer answer;
  answer.outcome.status = std::move(why);
  return answer;
}

}  // namespace

Replica::Replica(const Terms& terms, Events* events, StoreNode* node, PaddedCodec* codec, Figures* figures)
    : terms_(terms),
      events_(events),
      figures_(figures),
      line_(terms, events, node, figures, [this](absl::AnyInvocable<void()> act) { Run(std::move(act)); }),
      records_(&line_, codec),
      sessions_(std::make_unique<MemorySessions>(OptionsOf(), events)) {
  sessions_->UseRecords(&records_);
  Tick();
}

Replica::~Replica() {
  Kill();
  line_.AnswerAll();
}

void Replica::Run(absl::AnyInvocable<void()> act) {
  if (!is_alive_) return;
  if (events_->Now() >= stopped_until_) return act();
  events_->After(stopped_until_ - events_->Now(), [this, act = std::move(act)]() mutable { Run(std::move(act)); });
}

void Replica::Tick() {
  events_->After(kTick, [this] {
    Run([this] {
      sessions_->EndTimeouts();
      if (events_->Now() >= next_sweep_) {
        sessions_->Sweep();
        next_sweep_ = events_->Now() + absl::Seconds(1);
      }
      Tick();
    });
  });
}

void Replica::Open(const OpenCall& call, OpenTold answer) {
  Run([this, call, answer = std::move(answer)] {
    const OpenTold told = [this, answer](absl::StatusOr<Opened> opened) {
      if (is_alive_) answer(std::move(opened));
    };
    if (call.name.empty()) return OpenHere(call, {}, told);
    sessions_->FetchNamed(kTenant, call.name, call.attach,
                          [this, call, told](const absl::StatusOr<std::optional<StoreFence>>& fence) {
                            if (!is_alive_) return;
                            if (!fence.ok()) return told(fence.status());
                            OpenHere(call, *fence, told);
                          });
  });
}

void Replica::OpenHere(const OpenCall& call, const std::optional<StoreFence>& fence, const OpenTold& told) {
  OpenSpec spec;
  spec.tenant = kTenant;
  spec.name = call.name;
  spec.attach = call.attach;
  spec.fence = fence;
  spec.subject = std::make_shared<SessionSubject>();
  spec.state = StateOf(0);
  spec.terms.idle_timeout = terms_.idle_timeout;
  spec.terms.window = {4, 4096};
  spec.terms.durability = call.durability;
  const absl::StatusOr<OpenedSession> opened = sessions_->Open(std::move(spec));
  if (!opened.ok()) return told(opened.status());
  opened->session->Persist([told, opened = *opened](const absl::Status& written) {
    if (!written.ok()) return told(written);
    told(Opened{opened.key, opened.session->view().numbers.last_applied});
  });
}

void Replica::Apply(const std::string& key, const Operation& operation, Told told) {
  Run([this, key, operation, told = std::move(told)] {
    Count(1);
    Find(key, operation, [this, told](Answer answer) {
      if (!is_alive_) return;
      Count(-1);
      told(std::move(answer));
    });
  });
}

void Replica::Find(std::string key, const Operation& operation, const Told& told) {
  if (terms_.fault == Fault::kAnyKeyOfAName) {
    key = sessions_->KeyOf(SessionKey::Parse(key)->id).value_or(key);
  }
  const absl::StatusOr<SessionPtr> found = sessions_->Find(key, kTenant);
  if (found.ok()) return Acquire(*found, operation, told);
  if (!IsElsewhere(found.status())) return told(Refused(found.status()));
  sessions_->Fetch(key, kTenant, [this, operation, told](const absl::StatusOr<SessionPtr>& fetched) {
    if (!fetched.ok()) return told(Refused(fetched.status()));
    Acquire(*fetched, operation, told);
  });
}

void Replica::Acquire(const SessionPtr& session, const Operation& operation, const Told& told) {
  Claim claim;
  claim.number = operation.number;
  claim.digest = {operation.content, 0};
  claim.attachment = sessions_->Attach();
  claim.reply_bytes = 600;
  claim.deadline = events_->Now() + kTimeout;
  claim.closes = operation.closes;
  claim.granted = [this, operation](Lease lease) { Compute(std::move(lease), operation); };
  claim.done = [this, told](Outcome outcome) {
    const uint64_t state = outcome.status.ok() ? static_cast<const NumberReply&>(*outcome.reply).value : 0;
    if (terms_.fault == Fault::kDurableTooHigh && outcome.status.ok()) outcome.durable_number = outcome.number;
    told({std::move(outcome), state});
  };
  sessions_->Acquire(session, std::move(claim));
}

// The engine takes operations in the order in which they come.
void Replica::Compute(Lease lease, const Operation& operation) {
  if (!is_alive_) return;  // what a dropped lease leads to
  const uint64_t before = static_cast<const NumberState&>(*lease.state()->handles.at(0)).value;
  const uint64_t state = After(before, operation.content);
  Change change = {.state = StateOf(state),
                   .position = lease.numbers().position + 1,
                   .reply = std::make_shared<NumberReply>(state),
                   .closes = operation.closes};
  computing_.push_back(std::move(lease));
  busy_until_ = std::max(busy_until_, events_->Now()) + terms_.step;
  events_->After(busy_until_ - events_->Now(), [this, change = std::move(change)] {
    Run([this, change] {
      Lease computed = std::move(computing_.front());
      computing_.pop_front();
      std::move(computed).Commit(change);
    });
  });
}

void Replica::Count(int64_t by) {
  under_way_ += by;
  figures_->under_way.Add(by);
}

void Replica::Kill() {
  if (!std::exchange(is_alive_, false)) return;
  Count(-under_way_);
  line_.Cut();
  while (!computing_.empty()) computing_.pop_front();
}

}  // namespace rnnserve::storms
