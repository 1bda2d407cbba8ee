// SPDX-License-Identifier: Apache-2.0
// Keys, names, request ids, lists. The passing of time is in memory_sessions_sweep.cc.
#include "server/sessions/memory_sessions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/op/field_error.h"

namespace rnnserve {
namespace {

absl::Status Leaving() {
  return SessionError(absl::StatusCode::kUnavailable, "DRAINING",
                      "the server is leaving and opens no sessions; open it on another server");
}

// Tells whoever counts that a session was not opened.
absl::Status Refused(const SessionSubject& subject, absl::Status why) {
  if (subject.counters() != nullptr) subject.counters()->refused->Add();
  return why;
}

}  // namespace

MemorySessions::MemorySessions(Options options, const MonotonicClock* clock)
    : options_(std::move(options)),
      clock_(clock),
      keys_(options_.keys),
      bytes_(options_.max_bytes, options_.memory),
      aging_(clock, options_.sweep_period),
      site_{clock, &aging_, &timeouts_, false, [this](const SessionPtr& session) { Ended(session); }},
      wheel_(options_.sweep_period),
      ended_(options_.ended) {}

// Sessions give back to the budgets of their tenants, so they go first.
MemorySessions::~MemorySessions() {
  timeouts_.Clear();
  wheel_.Clear();
  lingering_.clear();
  for (auto& [name, tenant] : tenants_) {
    tenant->names.clear();
    tenant->requests.clear();
    tenant->order = {};
  }
  sessions_.clear();
}

MemorySessions::Tenant& MemorySessions::TenantOf(std::string_view name) {
  const auto found = tenants_.find(name);
  if (found != tenants_.end()) return *found->second;
  auto tenant = std::make_unique<Tenant>(std::string(name), options_.tenant, &bytes_);
  return *tenants_.emplace(std::string(name), std::move(tenant)).first->second;
}

OpenedSession MemorySessions::Opened(SessionPtr session, bool is_new) const {
  std::string key = keys_.Text(session->key());
  return {std::move(session), std::move(key), is_new};
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

absl::Status MemorySessions::CheckName(const Tenant& tenant, const std::string& name) const {
  if (name.empty()) return absl::OkStatus();
  const auto found = tenant.names.find(name);
  if (found == tenant.names.end() || !found->second->view().live) return absl::OkStatus();
  return SessionError(absl::StatusCode::kAlreadyExists, "NAME_TAKEN",
                      "there is a live session of that name; set attach to be given its key, or take another name");
}

std::optional<absl::StatusOr<OpenedSession>> MemorySessions::FindOpened(std::string_view tenant,
                                                                        const RequestIdentity& request,
                                                                        std::string_view name, bool attach) {
  std::lock_guard lock(mutex_);
  const Tenant& of = TenantOf(tenant);
  if (auto answered = FindAnswered(of, request)) {
    if (!answered->ok()) return answered->status();
    return Opened((*answered)->sessions.front(), false);
  }
  if (!attach || name.empty()) return std::nullopt;
  const auto found = of.names.find(name);
  if (found == of.names.end() || !found->second->view().live) return std::nullopt;
  return Opened(found->second, false);
}

absl::StatusOr<OpenedSession> MemorySessions::Open(OpenSpec spec) {
  // A repetition that raced with the first.
  if (auto opened = FindOpened(spec.tenant, spec.request, spec.name, spec.attach)) return *std::move(opened);
  if (site_.draining.load(std::memory_order_relaxed)) return Refused(*spec.subject, Leaving());
  const SessionKeys::Key key = keys_.Make(spec.tenant);
  const int64_t charge = Session::Charge(spec.terms, *spec.state);

  std::lock_guard lock(mutex_);
  Tenant& tenant = TenantOf(spec.tenant);
  if (auto answered = FindAnswered(tenant, spec.request)) {
    if (!answered->ok()) return answered->status();
    return Opened((*answered)->sessions.front(), false);
  }
  if (absl::Status free = CheckName(tenant, spec.name); !free.ok()) {
    if (spec.attach) return Opened(tenant.names.find(spec.name)->second, false);
    return free;
  }
  absl::Status rate = tenant.budget.TakeOperation(clock_->Now());
  if (rate.ok()) rate = tenant.budget.TakeSession();
  if (!rate.ok()) return Refused(*spec.subject, std::move(rate));
  if (absl::Status taken = tenant.budget.TakeBytes(charge); !taken.ok()) {
    tenant.budget.GiveBackSession();
    return Refused(*spec.subject, std::move(taken));
  }
  SessionPtr session = Add(tenant,
                           {.key = key,
                            .order = 0,
                            .name = std::move(spec.name),
                            .subject = std::move(spec.subject),
                            .state = std::move(spec.state),
                            .numbers = {}},
                           spec.terms);
  Remember(tenant, spec.request, {spec.request.digest, {session}, 0});
  return Opened(std::move(session), true);
}

SessionPtr MemorySessions::Add(Tenant& tenant, Session::Start start, const Session::Terms& terms) {
  start.order = next_order_++;
  auto session = std::make_shared<Session>(std::move(start), terms, &tenant.budget, &site_);
  sessions_.insert(session);
  tenant.order.Add(session->order(), session);
  if (!session->name().empty()) tenant.names[std::string(session->name())] = session;
  wheel_.Add(session, aging_.Now() + terms.idle_timeout);
  ++live_;
  return session;
}

void MemorySessions::Remember(Tenant& tenant, const RequestIdentity& request, Answered answered) {
  if (request.id.empty()) return;
  for (const SessionPtr& session : answered.sessions) tenant.request_of[session.get()] = request.id;
  tenant.requests[request.id] = std::move(answered);
}

absl::StatusOr<SessionPtr> MemorySessions::Find(std::string_view text, std::string_view tenant) {
  const SessionKeys::Judgement judged = keys_.Judge(text, tenant);
  if (judged.kind == SessionKeys::Kind::kUnknown) return UnknownSession();
  if (judged.kind == SessionKeys::Kind::kOtherBoot) {
    if (options_.unknown_model != nullptr) options_.unknown_model->lost->Add();
    return SessionError(
        absl::StatusCode::kDataLoss, "SESSION_LOST",
        "the session lived in another run of the server, and its state went with it; open a new session "
        "from a state of your own, or from the start");
  }
  std::optional<EndedSessions::End> end;
  {
    std::lock_guard lock(mutex_);
    const auto found = sessions_.find(judged.key.id);
    if (found != sessions_.end()) {
      const bool same = SessionKeys::Matches((*found)->key().mac, judged.key.mac);
      if (same && (*found)->budget().tenant() == tenant) return *found;
      return UnknownSession();
    }
    end = ended_.Find(judged.key.id);
  }
  if (!keys_.Verify(judged.key, tenant)) return UnknownSession();
  if (!end) return EndedSession(EndCause::kUnknown);
  return WithNumbers(EndedSession(end->cause), end->numbers);
}

std::optional<std::string> MemorySessions::KeyOf(const SessionId& id) {
  SessionPtr session;
  {
    std::lock_guard lock(mutex_);
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return std::nullopt;
    session = *found;
  }
  if (!session->view().live) return std::nullopt;
  return keys_.Text(session->key());
}

void MemorySessions::Acquire(const SessionPtr& session, Claim claim) {
  if (absl::Status rate = session->budget().TakeOperation(clock_->Now()); !rate.ok()) {
    Outcome outcome;
    outcome.numbers = session->view().numbers;
    outcome.status = WithNumbers(std::move(rate), outcome.numbers);
    return claim.done(std::move(outcome));
  }
  session->Acquire(std::move(claim));
}

void MemorySessions::Look(const SessionPtr& session, Glance glance) { session->Look(std::move(glance)); }

std::optional<absl::StatusOr<ForkedSessions>> MemorySessions::FindForked(const ForkSpec& spec) {
  std::lock_guard lock(mutex_);
  auto answered = FindAnswered(TenantOf(spec.tenant), spec.request);
  if (!answered) return std::nullopt;
  if (!answered->ok()) return answered->status();
  ForkedSessions forked{{}, (*answered)->number};
  for (const SessionPtr& fork : (*answered)->sessions) forked.keys.push_back(keys_.Text(fork->key()));
  return forked;
}

void MemorySessions::Fork(const SessionPtr& session, ForkSpec spec, ForkDone done) {
  Glance glance;
  glance.after_number = spec.after_number;
  glance.in_order = spec.in_order;
  if (std::optional<absl::StatusOr<ForkedSessions>> forked = FindForked(spec)) {
    if (!forked->ok()) return done(WithNumbers(forked->status(), session->view().numbers));
    return done(**std::move(forked));
  }
  glance.done = [this, session, spec = std::move(spec),
                 done = std::move(done)](absl::StatusOr<Snapshot> snapshot) mutable {
    if (!snapshot.ok()) return done(snapshot.status());
    const Numbers numbers = snapshot->numbers;
    absl::StatusOr<ForkedSessions> forked = MakeForks(*session, spec, *std::move(snapshot));
    if (!forked.ok()) return done(WithNumbers(forked.status(), numbers));
    done(std::move(forked));
  };
  session->Look(std::move(glance));
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

  std::lock_guard lock(mutex_);
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
  absl::Status status = tenant.budget.TakeOperation(clock_->Now());
  for (; status.ok() && taken < spec.count; ++taken) {
    status = tenant.budget.TakeSession();
    if (!status.ok()) break;
    status = tenant.budget.TakeBytes(charge);
    if (!status.ok()) {
      tenant.budget.GiveBackSession();
      break;
    }
  }
  if (!status.ok()) {  // all or none
    for (; taken > 0; --taken) {
      tenant.budget.GiveBackSession();
      tenant.budget.GiveBackBytes(charge);
    }
    return Refused(*snapshot.subject, std::move(status));
  }
  ForkedSessions forked{{}, snapshot.numbers.last_applied};
  Answered answered{spec.request.digest, {}, snapshot.numbers.last_applied};
  for (size_t k = 0; k < static_cast<size_t>(spec.count); ++k) {
    const SessionPtr fork = Add(tenant,
                                {.key = keys_.Make(spec.tenant),
                                 .order = 0,
                                 .name = spec.names.empty() ? "" : spec.names[k],
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

absl::StatusOr<SessionPage> MemorySessions::List(std::string_view tenant, int64_t page_size, std::string_view token) {
  uint64_t after = 0;
  if (!token.empty() && !absl::SimpleAtoi(absl::string_view(token.data(), token.size()), &after)) {
    return FieldError("page_token", "this page_token came with no page; leave it empty, or take that of the last page");
  }
  std::vector<std::pair<uint64_t, SessionPtr>> found;
  {
    std::lock_guard lock(mutex_);
    found = TenantOf(tenant).order.Page(after, static_cast<size_t>(page_size) + 1);
  }
  SessionPage page;
  if (static_cast<int64_t>(found.size()) > page_size) {
    found.pop_back();
    page.next_token = absl::StrCat(found.back().first);
  }
  for (auto& [order, session] : found) {
    const Session::View view = session->view();
    if (view.live) page.items.push_back({session, keys_.Text(session->key()), view});
  }
  return page;
}

int64_t MemorySessions::live() const {
  std::lock_guard lock(mutex_);
  return live_;
}

}  // namespace rnnserve
