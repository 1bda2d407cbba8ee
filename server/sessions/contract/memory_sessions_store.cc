// SPDX-License-Identifier: Apache-2.0
// Sessions that other processes have, or take: takeovers, names, the drain.
#include <utility>

#include "base/status_macros.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/contract/session_records.h"

namespace rnnserve {
namespace {

// Callers that wait for one takeover.
constexpr size_t kMostWaiting = 4096;

// Writes the records of sessions, some at a time: the queue to the store is for callers, too.
class PersistRun : public std::enable_shared_from_this<PersistRun> {
 public:
  explicit PersistRun(std::vector<SessionPtr> sessions) : sessions_(std::move(sessions)) {}

  // On one thread at a time: answers that come meanwhile, here or on other threads, make it look again.
  void Go() {
    if (calls_.fetch_add(1) != 0) return;
    uint64_t seen = 1;
    do {
      while (next_ < sessions_.size() && in_flight_ < kAtOnce) {
        ++in_flight_;
        const SessionPtr session = std::move(sessions_[next_++]);
        session->Persist([run = shared_from_this()](const absl::Status&) {
          --run->in_flight_;
          run->Go();
        });
      }
    } while (!calls_.compare_exchange_strong(seen, 0));
  }

 private:
  static constexpr int kAtOnce = 256;

  std::vector<SessionPtr> sessions_;
  size_t next_ = 0;
  std::atomic<int> in_flight_ = 0;
  std::atomic<uint64_t> calls_ = 0;
};

}  // namespace

absl::Status MemorySessions::Lost() const {
  if (options_.unknown_model != nullptr) options_.unknown_model->lost->Add();
  return SessionError(absl::StatusCode::kDataLoss, "SESSION_LOST",
                      site_.records == nullptr
                          ? "the session lived in another run of the server, and its state went with it; open a new "
                            "session from a state of your own, or from the start"
                          : "the session is neither in this process nor in the store: it has expired, or lived in "
                            "another run of the server without durability; open a new session from a state of your "
                            "own, or from the start");
}

// No record has it.
absl::Status MemorySessions::LostOrEnded(const SessionKey& key) const {
  std::optional<EndedSessions::End> end;
  {
    const MutexLock lock(mutex_);
    end = ended_.Find(key);
  }
  return end ? WithNumbers(EndedSession(end->cause), end->numbers) : Lost();
}

// The keys of callers have been judged by Find.
void MemorySessions::Fetch(std::string_view text, std::string_view tenant, FetchDone done) {
  const SessionKey key = SessionKey::Parse(text).value_or(SessionKey{});
  TakeOver(key.id, [this, key, tenant = std::string(tenant), done = std::move(done)](const Taken& taken) mutable {
    const bool has_ended = EndCauseOf(taken.session.status()).has_value();
    if (absl::IsNotFound(taken.session.status()) && !has_ended) return done(LostOrEnded(key));
    if (has_ended && taken.key != key) return done(EndedSession(EndCause::kUnknown));
    if (!taken.session.ok()) return done(taken.session.status());
    Session& session = **taken.session;
    if (session.budget().tenant() != tenant) return done(UnknownSession());
    if (session.key() == key) return done(taken.session);
    // The sessions of a name share an id: if this one is the newest, the key is that of one before it.
    session.Persist([done = std::move(done)](const absl::Status& written) mutable {
      if (written.ok()) return done(EndedSession(EndCause::kUnknown));
      done(EndCauseOf(written) ? EndedSession(EndCause::kMoved) : written);
    });
  });
}

void MemorySessions::TakeOver(const SessionId& id, TakenDone done) {
  if (site_.draining.load(std::memory_order_relaxed)) {
    return done({SessionError(absl::StatusCode::kUnavailable, "DRAINING",
                              "the server is leaving: go on with the session on another server")});
  }
  MutexLock lock(mutex_);
  const auto taking = taking_.find(id);
  if (taking != taking_.end()) {
    if (taking->second.size() < kMostWaiting) return taking->second.push_back(std::move(done));
    lock.unlock();
    return done(
        {TooManyInFlight("many operations of this session wait for the session store; send this one again later")});
  }
  if (const auto found = sessions_.find(id); found != sessions_.end() && (*found)->view().live) {
    const Taken here = {*found};  // another caller's takeover has ended meanwhile
    lock.unlock();
    return done(here);
  }
  taking_[id].push_back(std::move(done));
  lock.unlock();
  const auto check = [this](const SessionRecord& record) { return CheckRoom(record); };
  site_.records->Take(id, check, [this, id](absl::StatusOr<SessionRecords::Taken> taken) {
    if (!taken.ok()) {
      const absl::Status& why = taken.status();
      return EndTakeOver(id, {absl::IsNotFound(why) ? why : StoreUnavailable(why)});
    }
    const StoreFence fence = taken->fence;
    const SessionKey key = taken->record.key;
    EndTakeOver(id, {Adopt(std::move(taken->record), fence), fence, key});
  });
}

// Answers all callers, also those that come meanwhile.
void MemorySessions::EndTakeOver(const SessionId& id, const Taken& taken) {
  for (;;) {
    std::vector<TakenDone> waiting;
    {
      const MutexLock lock(mutex_);
      const auto taking = taking_.find(id);
      if (taking->second.empty()) {
        taking_.erase(taking);
        return;
      }
      waiting = std::exchange(taking->second, {});
    }
    for (TakenDone& done : waiting) done(taken);
  }
}

// A server with no room leaves the session where it is.
absl::Status MemorySessions::CheckRoom(const SessionRecord& record) {
  if (record.state == nullptr) return absl::OkStatus();
  const MutexLock lock(mutex_);
  const int64_t bytes = Session::Charge(record.terms, *record.state);
  TenantBudget& budget = TenantOf(record.tenant).budget;
  absl::Status room = budget.TakeSession(bytes);
  if (room.ok()) budget.ReleaseSession(bytes);
  return room;
}

absl::StatusOr<SessionPtr> MemorySessions::Adopt(SessionRecord record, const StoreFence& fence) {
  MutexLock lock(mutex_);
  if (record.state == nullptr) {
    ended_.Remember(record.key, {EndCause::kClosed, record.numbers});
    return WithNumbers(EndedSession(EndCause::kClosed), record.numbers);
  }
  Tenant& tenant = TenantOf(record.tenant);
  RETURN_IF_ERROR(tenant.budget.TakeSession(Session::Charge(record.terms, *record.state)));
  const SessionSubjectPtr subject = record.subject;
  SessionPtr session = Add(tenant,
                           {.key = record.key,
                            .order = 0,
                            .name = std::move(record.name),
                            .subject = std::move(record.subject),
                            .state = std::move(record.state),
                            .numbers = record.numbers,
                            .owner_epoch = record.owner_epoch,
                            .last = std::move(record.last),
                            .fence = fence},
                           record.terms);
  if (subject->counters() != nullptr) subject->counters()->taken_over->Add();
  return session;
}

void MemorySessions::FetchNamed(std::string_view tenant, std::string_view name, bool attach, FetchNamedDone done) {
  if (site_.records == nullptr) return done(std::nullopt);
  SessionPtr here;
  {
    const MutexLock lock(mutex_);
    here = FindNamed(TenantOf(tenant), name);
  }
  std::vector<SessionId> ids = keys_.IdsOf(tenant, name);
  const size_t first = attach ? ids.size() : 0;
  if (here == nullptr) return LookNamed(std::move(ids), first, std::move(done));
  if (!here->is_durable()) return done(std::nullopt);
  here->Persist([this, ids = std::move(ids), first, done = std::move(done)](absl::Status written) mutable {
    if (written.ok()) return done(std::nullopt);
    if (!absl::IsAborted(written) && !absl::IsNotFound(written)) return done(std::move(written));
    LookNamed(std::move(ids), first, std::move(done));
  });
}

// From `at` on it only looks: an Open that does not attach leaves a live session where it is.
void MemorySessions::LookNamed(std::vector<SessionId> ids, size_t at, FetchNamedDone done) {
  if (at == ids.size()) return TakeNamed(std::move(ids), 0, std::move(done));
  const SessionId id = ids[at];
  site_.records->Read(id, [this, ids = std::move(ids), at,
                           done = std::move(done)](const absl::StatusOr<SessionRecord>& record) mutable {
    if (record.ok() && record->state != nullptr) return done(NameTaken());
    if (!record.ok() && !absl::IsNotFound(record.status())) return done(StoreUnavailable(record.status()));
    LookNamed(std::move(ids), at + 1, std::move(done));
  });
}

void MemorySessions::TakeNamed(std::vector<SessionId> ids, size_t at, FetchNamedDone done) {
  if (at == ids.size()) return done(std::nullopt);
  const SessionId id = ids[at];
  TakeOver(id, [this, ids = std::move(ids), at, done = std::move(done)](const Taken& taken) mutable {
    if (taken.session.ok()) return done(std::nullopt);
    if (!absl::IsNotFound(taken.session.status())) return done(taken.session.status());
    // Closed: its record is this process' now, and a new session may replace it.
    if (at == 0 && EndCauseOf(taken.session.status())) return done(taken.fence);
    TakeNamed(std::move(ids), at + 1, std::move(done));
  });
}

std::vector<SessionPtr> MemorySessions::Durable() const {
  std::vector<SessionPtr> durable;
  const MutexLock lock(mutex_);
  for (const SessionPtr& session : sessions_) {
    if (session->is_durable()) durable.push_back(session);
  }
  return durable;
}

void MemorySessions::PersistAll() {
  const auto run = std::make_shared<PersistRun>(Durable());
  {
    const MutexLock lock(mutex_);
    persisting_ = run;
  }
  run->Go();
}

void MemorySessions::StartDrain() {
  site_.draining.store(true, std::memory_order_relaxed);
  PersistAll();
}

// A store that has lost one record has often lost all (it came back empty). Ends once a run has found none missing.
void MemorySessions::MendStore() {
  {
    const MutexLock lock(mutex_);
    if (!persisting_.expired()) return;
  }
  if (site_.record_lost.exchange(false)) PersistAll();
}

}  // namespace rnnserve
