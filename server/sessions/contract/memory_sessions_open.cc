// SPDX-License-Identifier: Apache-2.0
// Names, request ids, attaching, forks.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/contract/session_records.h"

namespace rnnserve {
namespace {

absl::Status Leaving() {
  return SessionError(absl::StatusCode::kUnavailable, "DRAINING",
                      "the server is leaving and opens no sessions; open it on another server");
}

absl::Status NoSuchName(std::string_view name) {
  return SessionError(absl::StatusCode::kNotFound, "SESSION_UNKNOWN",
                      absl::StrCat("there is no live session called \"", absl::string_view(name.data(), name.size()),
                                   "\", and must_exist is set; leave it out to open a new one"));
}

absl::Status LostByEngine() {
  return SessionError(absl::StatusCode::kDataLoss, "SESSION_LOST",
                      "the engine that held the state of the session of this name has failed, and the state is gone; "
                      "open a new one under another name");
}

// Counts a session that was not opened.
absl::Status Refused(const SessionSubject& subject, absl::Status why) {
  if (subject.counters() != nullptr) subject.counters()->refused->Add();
  return why;
}

}  // namespace

OpenedSession MemorySessions::Opened(const Answered& answered) const {
  const SessionPtr& session = answered.sessions.front();
  return {session, keys_.Text(session->key()), answered.is_new, answered.owner_epoch};
}

std::optional<absl::StatusOr<MemorySessions::Answered>> MemorySessions::FindAnswered(
    const Tenant& tenant, const RequestIdentity& request) const {
  if (request.id.empty()) return std::nullopt;
  const auto found = tenant.requests.find(request.id);
  if (found == tenant.requests.end()) return std::nullopt;
  if (found->second.digest == request.digest) return found->second;
  return SessionError(absl::StatusCode::kAborted, "REQUEST_ID_REUSED",
                      "this request_id came before with another content; a new request takes a new one");
}

SessionPtr MemorySessions::FindNamed(const Tenant& tenant, std::string_view name) {
  if (name.empty()) return nullptr;
  const auto found = tenant.names.find(name);
  return found != tenant.names.end() && found->second->view().live ? found->second : nullptr;
}

absl::Status MemorySessions::CheckName(const Tenant& tenant, std::string_view name) {
  return FindNamed(tenant, name) == nullptr ? absl::OkStatus() : NameTaken();
}

std::optional<absl::StatusOr<OpenedSession>> MemorySessions::FindOpened(const OpenAsk& ask) {
  SessionPtr named;
  {
    const MutexLock lock(mutex_);
    const Tenant& tenant = TenantOf(ask.tenant);
    if (auto answered = FindAnswered(tenant, ask.request)) {
      if (!answered->ok()) return answered->status();
      return Opened(**answered);
    }
    if (ask.attach) named = FindNamed(tenant, ask.name);
  }
  if (named != nullptr) {
    if (auto attached = AttachTo(named, ask)) return attached;
  }
  if (ask.must_exist) return NoSuchName(ask.name);
  return std::nullopt;
}

std::optional<absl::StatusOr<OpenedSession>> MemorySessions::AttachTo(const SessionPtr& session, const OpenAsk& ask) {
  if (ask.must_exist && session->subject()->IsLost()) return LostByEngine();
  if (ask.agrees) {
    if (absl::Status agrees = ask.agrees(*session); !agrees.ok()) return agrees;
  }
  const std::optional<uint64_t> owner_epoch = session->RaiseOwnerEpoch();
  if (!owner_epoch) return std::nullopt;
  RememberAttached(ask, session, *owner_epoch);
  return OpenedSession{session, keys_.Text(session->key()), false, *owner_epoch};
}

absl::StatusOr<OpenedSession> MemorySessions::Open(OpenSpec spec) {
  // Opened by another call since it was looked for.
  if (auto opened = FindOpened(spec)) return *std::move(opened);
  if (site_.draining.load(std::memory_order_relaxed)) return Refused(*spec.subject, Leaving());
  const SessionKeys::Key key = MakeKey(spec.tenant, spec.name, spec.terms);
  const int64_t charge = Session::Charge(spec.terms, *spec.state);

  MutexLock lock(mutex_);
  Tenant& tenant = TenantOf(spec.tenant);
  if (auto answered = FindAnswered(tenant, spec.request)) {
    if (!answered->ok()) return answered->status();
    return Opened(**answered);
  }
  if (absl::Status free = CheckName(tenant, spec.name); !free.ok()) {
    if (!spec.attach) return free;
    lock.unlock();
    return Open(std::move(spec));
  }
  absl::Status rate = tenant.budget.TakeOperation(*clock_);
  if (rate.ok()) rate = tenant.budget.TakeSession(charge);
  if (!rate.ok()) return Refused(*spec.subject, std::move(rate));
  SessionPtr session = Add(tenant,
                           {.key = key,
                            .order = 0,
                            .name = std::move(spec.name),
                            .subject = std::move(spec.subject),
                            .state = std::move(spec.state),
                            .numbers = {},
                            .fence = spec.fence},
                           spec.terms);
  Answered answered = {.digest = spec.request.digest, .sessions = {std::move(session)}};
  OpenedSession opened = Opened(answered);
  Remember(tenant, spec.request, std::move(answered));
  return opened;
}

SessionKeys::Key MemorySessions::MakeKey(std::string_view tenant, std::string_view name,
                                         const Session::Terms& terms) const {
  const bool is_shared = terms.durability != Durability::kLocal && !name.empty();
  return is_shared ? keys_.MakeNamed(tenant, name) : keys_.Make(tenant);
}

SessionPtr MemorySessions::Add(Tenant& tenant, Session::Start start, const Session::Terms& terms) {
  start.order = next_order_++;
  auto session = std::make_shared<Session>(std::move(start), terms, &tenant.budget, &site_);
  // A closed one that lingers, with the id of its name.
  if (const auto closed = sessions_.find(session->key().id); closed != sessions_.end()) sessions_.erase(closed);
  sessions_.insert(session);
  tenant.order.Add(session->order(), session);
  if (!session->name().empty() && FindNamed(tenant, session->name()) == nullptr)
    tenant.names[std::string(session->name())] = session;
  wheel_.Add(session, aging_.Now() + terms.idle_timeout);
  ++live_;
  return session;
}

void MemorySessions::Remember(Tenant& tenant, const RequestIdentity& request, Answered answered) {
  if (request.id.empty()) return;
  for (const SessionPtr& session : answered.sessions) tenant.request_of[session.get()] = request.id;
  tenant.requests[request.id] = std::move(answered);
}

// Remembers the request, so that a repetition is no newer attach. One for each session: a repetition comes soon.
void MemorySessions::RememberAttached(const OpenAsk& ask, const SessionPtr& session, uint64_t owner_epoch) {
  if (ask.request.id.empty()) return;
  const MutexLock lock(mutex_);
  if (!sessions_.contains(session->key().id)) return;
  Tenant& tenant = TenantOf(ask.tenant);
  std::string& attached_by = tenant.attached_by[session.get()];
  if (!attached_by.empty()) tenant.requests.erase(attached_by);
  attached_by = ask.request.id;
  tenant.requests[ask.request.id] = {
      .digest = ask.request.digest, .sessions = {session}, .is_new = false, .owner_epoch = owner_epoch};
}

std::optional<absl::StatusOr<ForkedSessions>> MemorySessions::FindForked(const ForkSpec& spec) {
  const MutexLock lock(mutex_);
  auto answered = FindAnswered(TenantOf(spec.tenant), spec.request);
  if (!answered) return std::nullopt;
  if (!answered->ok()) return answered->status();
  ForkedSessions forked{{}, (*answered)->number};
  for (const SessionPtr& fork : (*answered)->sessions) forked.keys.push_back(keys_.Text(fork->key()));
  return forked;
}

void MemorySessions::Fork(const SessionPtr& session, ForkSpec spec, ForkDone done) {
  ReadRequest read;
  read.after_number = spec.after_number;
  read.in_order = spec.in_order;
  if (std::optional<absl::StatusOr<ForkedSessions>> forked = FindForked(spec)) {
    if (!forked->ok()) return done(WithNumbers(forked->status(), session->view().numbers));
    return done(**std::move(forked));
  }
  read.done = [this, session, spec = std::move(spec),
               done = std::move(done)](absl::StatusOr<Snapshot> snapshot) mutable {
    if (!snapshot.ok()) return done(snapshot.status());
    const Numbers numbers = snapshot->numbers;
    absl::StatusOr<ForkedSessions> forked = MakeForks(*session, spec, *std::move(snapshot));
    if (!forked.ok()) return done(WithNumbers(forked.status(), numbers));
    done(std::move(forked));
  };
  session->Read(std::move(read));
}

absl::StatusOr<ForkedSessions> MemorySessions::MakeForks(const Session& parent, const ForkSpec& spec,
                                                         Snapshot snapshot) {
  if (site_.draining.load(std::memory_order_relaxed)) return Refused(*snapshot.subject, Leaving());
  if (spec.count < 1 || spec.count > options_.max_forks) {
    return FieldError("count", absl::StrCat("count is ", spec.count, "; one Fork makes 1 to ", options_.max_forks));
  }
  if (!spec.names.empty() && static_cast<int64_t>(spec.names.size()) != spec.count) {
    return FieldError("names", absl::StrCat("there are ", spec.names.size(), " names for ", spec.count,
                                            " forks; give one for each, or none"));
  }
  if (std::set<std::string>(spec.names.begin(), spec.names.end()).size() != spec.names.size()) {
    return FieldError("names", "a name is given twice; each live session has a name of its own");
  }
  const int64_t charge = Session::Charge(parent.terms(), *snapshot.state);

  const MutexLock lock(mutex_);
  Tenant& tenant = TenantOf(spec.tenant);
  if (auto answered = FindAnswered(tenant, spec.request)) {  // a repetition that overtook
    if (!answered->ok()) return answered->status();
    ForkedSessions forked{{}, (*answered)->number};
    for (const SessionPtr& fork : (*answered)->sessions) forked.keys.push_back(keys_.Text(fork->key()));
    return forked;
  }
  for (const std::string& name : spec.names) {
    if (absl::Status free = CheckName(tenant, name); !free.ok()) return free;
  }
  int64_t taken = 0;
  absl::Status status = tenant.budget.TakeOperation(*clock_);
  while (status.ok() && taken < spec.count) {
    status = tenant.budget.TakeSession(charge);
    if (status.ok()) ++taken;
  }
  if (!status.ok()) {  // all or none
    for (; taken > 0; --taken) tenant.budget.ReleaseSession(charge);
    return Refused(*snapshot.subject, std::move(status));
  }
  ForkedSessions forked{{}, snapshot.numbers.last_applied};
  Answered answered{spec.request.digest, {}, snapshot.numbers.last_applied};
  for (size_t k = 0; k < static_cast<size_t>(spec.count); ++k) {
    const std::string name = spec.names.empty() ? "" : spec.names[k];
    const SessionPtr fork = Add(tenant,
                                {.key = MakeKey(spec.tenant, name, parent.terms()),
                                 .order = 0,
                                 .name = name,
                                 .subject = snapshot.subject,
                                 .state = snapshot.state,
                                 .numbers = snapshot.numbers},
                                parent.terms());
    forked.keys.push_back(keys_.Text(fork->key()));
    answered.sessions.push_back(fork);
  }
  Remember(tenant, spec.request, std::move(answered));
  return forked;
}

}  // namespace rnnserve
