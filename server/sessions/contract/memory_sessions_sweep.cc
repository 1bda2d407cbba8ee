// SPDX-License-Identifier: Apache-2.0
// The passing of time: idle sessions end, closed ones are forgotten.
#include <utility>

#include "server/sessions/contract/memory_sessions.h"

namespace rnnserve {
namespace {

// Sessions checked while other threads wait for the lock.
constexpr size_t kAtOnce = 256;

}  // namespace

int64_t MemorySessions::Sweep() {
  const absl::Duration now = aging_.Advance();
  ForgetLingering();
  MendStore();
  int64_t ended = 0;
  for (;;) {
    std::vector<SessionPtr> due;
    {
      const MutexLock lock(mutex_);
      due = wheel_.TakeDue(now, kAtOnce);
    }
    std::vector<std::pair<SessionPtr, absl::Duration>> again;
    for (const SessionPtr& session : due) {
      if (const std::optional<absl::Duration> at = session->EndIfIdle()) {
        again.push_back({session, *at});
      } else {
        ++ended;
      }
    }
    const MutexLock lock(mutex_);
    for (auto& [session, at] : again) {
      if (session->view().live) wheel_.Add(std::move(session), at);
    }
    if (due.size() < kAtOnce) return ended;
  }
}

void MemorySessions::EndTimeouts() {
  for (const SessionPtr& session : timeouts_.TakeDue(clock_->Now())) session->EndTimeouts();
}

// Called by the session, once.
void MemorySessions::Ended(const SessionPtr& session) {
  const Session::View view = session->view();
  const bool lingers = view.cause == EndCause::kClosed;
  {
    const MutexLock lock(mutex_);
    --live_;
    wheel_.Remove(session);
    if (view.cause != EndCause::kMoved) {
      const bool may_live = session->is_durable() && view.cause == EndCause::kExpired;
      ended_.Remember(session->key(), {view.cause, view.numbers, may_live});
    }
    Tenant& tenant = TenantOf(session->budget().tenant());
    tenant.order.Remove(session->order());
    const auto named = tenant.names.find(session->name());
    if (named != tenant.names.end() && named->second == session) tenant.names.erase(named);
    if (lingers) lingering_.push_back({clock_->Now() + options_.linger, session});
  }
  if (!lingers) Forget(session);
}

void MemorySessions::ForgetLingering() {
  std::vector<SessionPtr> over;
  {
    const MutexLock lock(mutex_);
    const absl::Duration now = clock_->Now();
    while (!lingering_.empty() && lingering_.front().until <= now) {
      over.push_back(std::move(lingering_.front().session));
      lingering_.pop_front();
    }
  }
  for (const SessionPtr& session : over) Forget(session);
}

void MemorySessions::Forget(const SessionPtr& session) {
  session->Forget();
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(session->key().id);
  if (found != sessions_.end() && *found == session) sessions_.erase(found);
  Tenant& tenant = TenantOf(session->budget().tenant());
  if (auto attached = tenant.attached_by.extract(session.get())) tenant.requests.erase(attached.mapped());
  const auto request = tenant.request_of.find(session.get());
  if (request == tenant.request_of.end()) return;
  const auto answered = tenant.requests.find(request->second);
  tenant.request_of.erase(request);
  // A Fork that is repeated answers with all its sessions as long as one of them is there.
  if (answered == tenant.requests.end()) return;
  for (const SessionPtr& one : answered->second.sessions) {
    if (tenant.request_of.contains(one.get())) return;
  }
  tenant.requests.erase(answered);
}

Sessions::LeftBehind MemorySessions::CountLeftBehind() {
  std::vector<SessionPtr> all;
  {
    const MutexLock lock(mutex_);
    all.assign(sessions_.begin(), sessions_.end());
  }
  LeftBehind left;
  for (const SessionPtr& session : all) {
    const Session::View view = session->view();
    if (!view.live) continue;
    // A lost session has no state to fetch; its operations in flight still have to be answered.
    if (!view.in_flight && (view.carried_over || session->subject()->IsLost())) continue;
    ++(session->is_durable() ? left.durable : left.local);
  }
  return left;
}

}  // namespace rnnserve
