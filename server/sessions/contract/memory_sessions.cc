// SPDX-License-Identifier: Apache-2.0
// Keys, operations, lists. Opening is in memory_sessions_open.cc, forking in
// memory_sessions_fork.cc, the passing of time is in
// memory_sessions_sweep.cc.
#include "server/sessions/contract/memory_sessions.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"

namespace rnnserve {
MemorySessions::MemorySessions(Options options, const MonotonicClock* clock)
    : options_(std::move(options)),
      clock_(clock),
      keys_(options_.keys),
      bytes_(options_.max_bytes, options_.memory),
      aging_(clock, options_.sweep_period),
      site_{clock, &aging_, &timeouts_, false, nullptr, false, [this](const SessionPtr& session) { Ended(session); }},
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

absl::StatusOr<SessionPtr> MemorySessions::Find(std::string_view text, std::string_view tenant) {
  const std::optional<SessionKey> key = SessionKey::Parse(text);
  if (!key) return UnknownSession();
  std::optional<EndedSessions::End> end;
  {
    const MutexLock lock(mutex_);
    const auto found = sessions_.find(key->id);
    const bool is_taken_now = !taking_.empty() && taking_.contains(key->id);
    if (found != sessions_.end() && !is_taken_now) {
      const SessionKey& known = (*found)->key();
      if (known.Is(*key) && (*found)->budget().tenant() == tenant) return *found;
      // The sessions of a name, one after the other, share an id.
      if (known.boot == key->boot || !(*found)->is_durable()) return UnknownSession();
    }
    end = ended_.Find(*key);
  }
  const SessionKeys::Kind kind = keys_.Classify(text, tenant).kind;
  const bool is_valid =
      kind == SessionKeys::Kind::kOurs ? keys_.Verify(*key, tenant) : kind != SessionKeys::Kind::kUnknown;
  if (!is_valid) return UnknownSession();
  if (end && !end->may_live) return WithNumbers(EndedSession(end->cause), end->numbers);
  if (site_.records != nullptr) return SessionElsewhere();
  return kind == SessionKeys::Kind::kOurs ? EndedSession(EndCause::kUnknown) : Lost();
}

std::optional<std::string> MemorySessions::KeyOf(const SessionId& id) {
  SessionPtr session;
  {
    const MutexLock lock(mutex_);
    if (!taking_.empty() && taking_.contains(id)) return "";
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return std::nullopt;
    session = *found;
  }
  if (!session->view().live) return std::nullopt;
  return session->key().Text();
}

void MemorySessions::Acquire(const SessionPtr& session, Claim&& claim) {
  if (absl::Status rate = session->budget().TakeOperation(*clock_); !rate.ok()) {
    Outcome outcome;
    outcome.numbers = session->NoteRefused(claim.number, rate);
    outcome.status = WithNumbers(std::move(rate), outcome.numbers);
    return claim.done(std::move(outcome));
  }
  session->Acquire(std::move(claim));
}

void MemorySessions::Read(const SessionPtr& session, ReadRequest read) { session->Read(std::move(read)); }

absl::StatusOr<SessionPage> MemorySessions::List(std::string_view tenant, int64_t page_size, std::string_view token) {
  uint64_t after = 0;
  if (!token.empty() && !absl::SimpleAtoi(absl::string_view(token.data(), token.size()), &after)) {
    return FieldError("page_token", "this page_token came with no page; leave it empty, or take that of the last page");
  }
  std::vector<SessionPtr> found;
  {
    const MutexLock lock(mutex_);
    for (const auto& [order, session] : TenantOf(tenant).order.Page(after, static_cast<size_t>(page_size) + 1)) {
      found.push_back(session->shared_from_this());
    }
  }
  SessionPage page;
  if (static_cast<int64_t>(found.size()) > page_size) {
    found.pop_back();
    page.next_token = absl::StrCat(found.back()->order());
  }
  for (const SessionPtr& session : found) {
    const Session::View view = session->view();
    if (view.live) page.items.push_back({session, session->key().Text(), view});
  }
  return page;
}

int64_t MemorySessions::live() const {
  const MutexLock lock(mutex_);
  return live_;
}

}  // namespace rnnserve
