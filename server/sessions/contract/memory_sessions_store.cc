// SPDX-License-Identifier: Apache-2.0
// Sessions that other processes have, or take: takeovers, names, the drain.
#include <utility>

#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/contract/session_records.h"

namespace rnnserve {
namespace {

// Callers that wait for one takeover.
constexpr size_t kMostWaiting = 4096;

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

// The keys of callers have been judged by Find.
void MemorySessions::Fetch(std::string_view text, std::string_view tenant, FetchDone done) {
  const SessionKeys::Key key = SessionKeys::Parse(text).value_or(SessionKeys::Key{});
  TakeOver(key.id, [this, key, tenant = std::string(tenant), done = std::move(done)](const Taken& taken) mutable {
    if (absl::IsNotFound(taken.session.status()) && !EndCauseOf(taken.session.status())) return done(Lost());
    if (!taken.session.ok()) return done(taken.session.status());
    const Session& session = **taken.session;
    if (session.budget().tenant() != tenant) return done(UnknownSession());
    if (session.key() != key) return done(EndedSession(EndCause::kUnknown));
    done(taken.session);
  });
}

void MemorySessions::TakeOver(const SessionId& id, TakenDone done) {
  if (site_.draining.load(std::memory_order_relaxed)) {
    return done({SessionError(absl::StatusCode::kUnavailable, "DRAINING",
                              "the server is leaving: go on with the session on another server"),
                 {}});
  }
  MutexLock lock(mutex_);
  const auto taking = taking_.find(id);
  if (taking != taking_.end()) {
    if (taking->second.size() < kMostWaiting) return taking->second.push_back(std::move(done));
    lock.unlock();
    return done(
        {TooManyInFlight("many operations of this session wait for the session store; send this one again later"), {}});
  }
  if (const auto found = sessions_.find(id); found != sessions_.end() && (*found)->view().live) {
    const Taken here = {*found, {}};  // another caller's takeover has ended meanwhile
    lock.unlock();
    return done(here);
  }
  taking_[id].push_back(std::move(done));
  lock.unlock();
  const StoreFence fence = SessionRecords::DrawFence();
  site_.records->Take(id, fence, [this, id, fence](absl::StatusOr<SessionRecord> record) {
    EndTakeOver(id, {record.ok()                         ? Adopt(*std::move(record), fence)
                     : absl::IsNotFound(record.status()) ? record.status()
                                                         : StoreUnavailable(record.status()),
                     fence});
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

absl::StatusOr<SessionPtr> MemorySessions::Adopt(SessionRecord record, const StoreFence& fence) {
  MutexLock lock(mutex_);
  if (record.state == nullptr) {
    ended_.Remember(record.key.id, {EndCause::kClosed, record.numbers});
    return WithNumbers(EndedSession(EndCause::kClosed), record.numbers);
  }
  Tenant& tenant = TenantOf(record.tenant);
  if (absl::Status taken = tenant.budget.TakeSession(); !taken.ok()) return taken;
  if (absl::Status taken = tenant.budget.TakeBytes(Session::Charge(record.terms, *record.state)); !taken.ok()) {
    tenant.budget.ReleaseSession();
    return taken;
  }
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

void MemorySessions::FetchNamed(std::string_view tenant, std::string_view name, FetchNamedDone done) {
  if (site_.records == nullptr) return done(std::nullopt);
  SessionPtr here;
  {
    const MutexLock lock(mutex_);
    here = FindNamed(TenantOf(tenant), name);
  }
  std::vector<SessionId> ids = keys_.IdsOf(tenant, name);
  if (here == nullptr) return TakeNamed(std::move(ids), 0, std::move(done));
  if (!here->is_durable()) return done(std::nullopt);
  here->Persist([this, ids = std::move(ids), done = std::move(done)](absl::Status written) mutable {
    if (written.ok()) return done(std::nullopt);
    if (!absl::IsAborted(written) && !absl::IsNotFound(written)) return done(std::move(written));
    TakeNamed(std::move(ids), 0, std::move(done));
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

void MemorySessions::StartDrain() {
  site_.draining.store(true, std::memory_order_relaxed);
  for (const SessionPtr& session : Durable()) session->Persist([](const absl::Status&) {});
}

}  // namespace rnnserve
