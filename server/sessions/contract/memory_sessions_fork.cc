// SPDX-License-Identifier: Apache-2.0
// Forks: new sessions from the state of one.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "server/sessions/contract/memory_sessions.h"

namespace rnnserve {
namespace {

absl::Status CheckFork(const ForkSpec& spec, int64_t max_forks) {
  if (spec.count < 1 || spec.count > max_forks) {
    return FieldError("count", absl::StrCat("count is ", spec.count, "; one Fork makes 1 to ", max_forks));
  }
  if (!spec.names.empty() && static_cast<int64_t>(spec.names.size()) != spec.count) {
    return FieldError("names", absl::StrCat("there are ", spec.names.size(), " names for ", spec.count,
                                            " forks; give one for each, or none"));
  }
  if (std::set<std::string>(spec.names.begin(), spec.names.end()).size() != spec.names.size()) {
    return FieldError("names", "a name is given twice; each live session has a name of its own");
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<absl::StatusOr<ForkedSessions>> MemorySessions::FindForked(const ForkSpec& spec) {
  const MutexLock lock(mutex_);
  auto answered = FindAnswered(TenantOf(spec.tenant), spec.request);
  if (!answered) return std::nullopt;
  if (!answered->ok()) return answered->status();
  ForkedSessions forked{{}, (*answered)->number};
  for (const SessionPtr& fork : (*answered)->sessions) forked.keys.push_back(fork->key().Text());
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
    if (absl::Status valid = CheckFork(spec, options_.max_forks); !valid.ok()) {
      return done(WithNumbers(std::move(valid), snapshot->numbers));
    }
    FetchForkNames({session, std::move(spec), *std::move(snapshot), std::move(done)});
  };
  session->Read(std::move(read));
}

// Sessions of these names may be in the store, live or closed. One name after the other: a Fork has few.
void MemorySessions::FetchForkNames(ForkRun run) {
  const size_t at = run.fences.size();
  if (!run.parent->is_durable() || at == run.spec.names.size()) {
    absl::StatusOr<ForkedSessions> forked = MakeForks(run);
    if (!forked.ok()) return run.done(WithNumbers(forked.status(), run.snapshot.numbers));
    return run.done(std::move(forked));
  }
  const std::string tenant = run.spec.tenant, name = run.spec.names[at];
  FetchNamed(tenant, name, /*attach=*/false,
             [this, run = std::move(run)](const absl::StatusOr<std::optional<StoreFence>>& fence) mutable {
               if (!fence.ok()) return run.done(WithNumbers(fence.status(), run.snapshot.numbers));
               run.fences.push_back(*fence);
               FetchForkNames(std::move(run));
             });
}

absl::StatusOr<ForkedSessions> MemorySessions::MakeForks(const ForkRun& run) {
  const Session& parent = *run.parent;
  const ForkSpec& spec = run.spec;
  const Snapshot& snapshot = run.snapshot;
  if (absl::Status stays = CheckStays(); !stays.ok()) return Refused(*snapshot.subject, std::move(stays));
  const int64_t charge = Session::Charge(parent.terms(), *snapshot.state);

  const MutexLock lock(mutex_);
  Tenant& tenant = TenantOf(spec.tenant);
  if (auto answered = FindAnswered(tenant, spec.request)) {  // a repetition that overtook
    if (!answered->ok()) return answered->status();
    ForkedSessions forked{{}, (*answered)->number};
    for (const SessionPtr& fork : (*answered)->sessions) forked.keys.push_back(fork->key().Text());
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
                                 .numbers = snapshot.numbers,
                                 .fence = run.fences.empty() ? std::nullopt : run.fences[k]},
                                parent.terms());
    forked.keys.push_back(fork->key().Text());
    answered.sessions.push_back(fork);
  }
  Remember(tenant, spec.request, std::move(answered));
  return forked;
}

}  // namespace rnnserve
