// SPDX-License-Identifier: Apache-2.0
// Names, request ids, attaching.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/contract/session_records.h"

namespace rnnserve {
namespace {

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

}  // namespace

absl::Status MemorySessions::Refused(const SessionSubject& subject, absl::Status why) {
  if (subject.counters() != nullptr) subject.counters()->refused->Add();
  return why;
}

absl::Status MemorySessions::CheckStays() const {
  if (!site_.draining.load(std::memory_order_relaxed)) return absl::OkStatus();
  return SessionError(absl::StatusCode::kUnavailable, "DRAINING",
                      "the server is leaving and opens no sessions; open it on another server");
}

OpenedSession MemorySessions::Opened(const Answered& answered) const {
  const SessionPtr& session = answered.sessions.front();
  return {session, session->key().Text(), answered.is_new, answered.owner_epoch};
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

SessionPtr MemorySessions::HolderOf(const Tenant& tenant, std::string_view name) {
  const auto found = tenant.names.find(name);
  return found != tenant.names.end() && found->second->view().live ? found->second : nullptr;
}

SessionPtr MemorySessions::FindNamed(const Tenant& tenant, std::string_view name) const {
  if (name.empty()) return nullptr;
  if (SessionPtr holder = HolderOf(tenant, name)) return holder;
  if (site_.records == nullptr) return nullptr;
  // A durable one that came here by its key while a local one had the name.
  for (const SessionId& id : keys_.IdsOf(tenant.budget.tenant(), name)) {
    const auto durable = sessions_.find(id);
    if (durable != sessions_.end() && (*durable)->view().live) return *durable;
  }
  return nullptr;
}

absl::Status MemorySessions::CheckName(const Tenant& tenant, std::string_view name) const {
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
  return OpenedSession{session, session->key().Text(), false, *owner_epoch};
}

absl::StatusOr<OpenedSession> MemorySessions::Open(OpenSpec spec) {
  // Opened by another call since it was looked for.
  if (auto opened = FindOpened(spec)) return *std::move(opened);
  if (absl::Status stays = CheckStays(); !stays.ok()) return Refused(*spec.subject, std::move(stays));
  const SessionKey key = MakeKey(spec.tenant, spec.name, spec.terms);
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

SessionKey MemorySessions::MakeKey(std::string_view tenant, std::string_view name, const Session::Terms& terms) const {
  const bool is_shared = terms.durability != Durability::kLocal && !name.empty();
  return is_shared ? keys_.MakeNamed(tenant, name) : keys_.Make(tenant);
}

SessionPtr MemorySessions::Add(Tenant& tenant, Session::Start start, const Session::Terms& terms) {
  start.order = next_order_++;
  auto session = std::make_shared<Session>(std::move(start), terms, &tenant.budget, &site_);
  // A closed one that lingers, with the id of its name.
  if (const auto closed = sessions_.find(session->key().id); closed != sessions_.end()) sessions_.erase(closed);
  // First: if memory ends below, it expires.
  wheel_.Add(session, aging_.Now() + terms.idle_timeout);
  ++live_;
  sessions_.insert(session);
  tenant.order.Add(session->order(), session.get());
  if (!session->name().empty() && HolderOf(tenant, session->name()) == nullptr)
    tenant.names[std::string(session->name())] = session;
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

}  // namespace rnnserve
