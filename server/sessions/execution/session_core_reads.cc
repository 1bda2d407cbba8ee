// SPDX-License-Identifier: Apache-2.0
// What sees sessions without changing them: reads, forks, lists, and refusals, which tell a session's numbers.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/sessions/execution/session_core.h"
#include "server/sessions/execution/session_digest.h"

namespace rnnserve {
namespace {

const SessionModel& ModelOf(const SessionSubjectPtr& subject) { return static_cast<const SessionModel&>(*subject); }

ReadRequest ReadOf(const ReadCall& call) {
  ReadRequest read;
  read.after_number = call.after_number;
  read.in_order = call.in_order;
  return read;
}

}  // namespace

void SessionCore::With(const std::string& key, const std::string& tenant, Sessions::FetchDone then) {
  absl::StatusOr<SessionPtr> session = sessions_->Find(key, tenant);
  if (IsElsewhere(session.status())) return sessions_->Fetch(key, tenant, std::move(then));
  then(std::move(session));
}

void SessionCore::Read(const std::string& key, const std::string& tenant, ReadRequest read) {
  With(key, tenant, [this, read = std::move(read)](absl::StatusOr<SessionPtr> session) mutable {
    if (!session.ok()) return read.done(session.status());
    sessions_->Read(*session, std::move(read));
  });
}

void SessionCore::GetState(ReadCall call, StateDone done) {
  ReadRequest read = ReadOf(call);
  read.carries_over = true;
  read.done = [this, caller_id = call.caller_id, done = std::move(done)](absl::StatusOr<Snapshot> snapshot) mutable {
    if (!snapshot.ok()) return done(snapshot.status());
    const SessionModel& model = ModelOf(snapshot->subject);
    absl::StatusOr<ByteBudget::Share> memory = core_->TakeMemory(caller_id, model.TensorBytes(snapshot->state->rows));
    if (!memory.ok()) return done(WithNumbers(memory.status(), snapshot->numbers));
    absl::StatusOr<std::vector<OutputTensor>> tensors = OrOutOfMemory([&] { return model.Export(*snapshot->state); });
    if (!tensors.ok()) return done(WithNumbers(tensors.status(), snapshot->numbers));
    done(StateReply{snapshot->numbers, model.fingerprint(), *std::move(tensors), snapshot->state->rows,
                    *std::move(memory)});
  };
  const std::string key = std::move(call.session), tenant = std::move(call.tenant);
  Read(key, tenant, std::move(read));
}

void SessionCore::Checkpoint(ReadCall call, std::string name, NumbersDone done) {
  const std::string key = call.session, tenant = call.tenant;
  With(key, tenant,
       [this, call = std::move(call), name = std::move(name),
        done = std::move(done)](absl::StatusOr<SessionPtr> session) mutable {
         if (!session.ok()) return done(session.status());
         if (name.empty() || name.size() > kMaxCheckpointNameBytes) {
           const absl::Status why = FieldError("name", absl::StrCat("the checkpoint's name has ", name.size(),
                                                                    " bytes; expected 1 to ", kMaxCheckpointNameBytes));
           return done(WithNumbers(why, (*session)->view().numbers));
         }
         ReadRequest read = ReadOf(call);
         read.checkpoint = std::move(name);
         read.done = [done = std::move(done)](absl::StatusOr<Snapshot> snapshot) mutable {
           if (!snapshot.ok()) return done(snapshot.status());
           done(snapshot->numbers);
         };
         sessions_->Read(*session, std::move(read));
       });
}

void SessionCore::Fork(ForkCall call, ForkDone done) {
  const std::string key = call.session, tenant = call.tenant;
  With(key, tenant, [this, call = std::move(call), done = std::move(done)](absl::StatusOr<SessionPtr> session) mutable {
    if (!session.ok()) return done(session.status());
    ForkSpec spec;
    spec.request = {call.request_id, DigestOf(call)};
    spec.tenant = call.tenant;
    spec.after_number = call.after_number;
    spec.in_order = call.in_order;
    spec.count = call.count;
    spec.names = std::move(call.names);
    const bool is_durable = (*session)->is_durable();
    sessions_->Fork(*session, std::move(spec),
                    [this, is_durable, tenant = call.tenant,
                     done = std::move(done)](absl::StatusOr<ForkedSessions> forked) mutable {
                      if (!forked.ok() || !is_durable) return done(std::move(forked));
                      PersistForks(*std::move(forked), 0, tenant, std::move(done));
                    });
  });
}

// One after the other; a Fork that is repeated goes on where the store failed.
void SessionCore::PersistForks(ForkedSessions forked, size_t at, const std::string& tenant, ForkDone done) {
  if (at == forked.keys.size()) return done(std::move(forked));
  absl::StatusOr<SessionPtr> fork = sessions_->Find(forked.keys[at], tenant);
  if (!fork.ok()) return done(fork.status());
  (*fork)->Persist(
      [this, forked = std::move(forked), at, tenant, done = std::move(done)](const absl::Status& written) mutable {
        if (!written.ok()) return done(written);
        PersistForks(std::move(forked), at + 1, tenant, std::move(done));
      });
}

absl::StatusOr<SessionInfos> SessionCore::List(std::string_view tenant, int64_t page_size, std::string_view token) {
  ASSIGN_OR_RETURN(SessionPage page, sessions_->List(tenant, page_size, token));
  SessionInfos infos;
  infos.next_token = std::move(page.next_token);
  for (SessionPage::Item& item : page.items) {
    const SessionModel& model = ModelOf(item.session->subject());
    const absl::Duration left = std::max(item.session->terms().idle_timeout - item.view.idle, absl::ZeroDuration());
    infos.sessions.push_back({std::move(item.key), std::string(item.session->name()), model.model_name(),
                              model.fingerprint(), item.view, left});
  }
  return infos;
}

std::vector<std::string> SessionCore::KeysOf(const SessionOwner& owner) { return owner.Keys(*sessions_); }

std::optional<Numbers> SessionCore::NumbersOf(std::string_view session, std::string_view tenant) {
  const absl::StatusOr<SessionPtr> found = sessions_->Find(session, tenant);
  if (!found.ok()) return std::nullopt;
  const Session::View view = (*found)->view();
  if (!view.live) return std::nullopt;
  return view.numbers;
}

absl::Status SessionCore::Refused(std::string_view session, std::string_view tenant, std::optional<uint64_t> number,
                                  absl::Status why) {
  if (session.empty() || rnnserve::NumbersOf(why)) return why;
  const absl::StatusOr<SessionPtr> found = sessions_->Find(session, tenant);
  if (!found.ok()) return why;
  const Numbers numbers = (*found)->NoteRefused(number, why);
  return WithNumbers(std::move(why), numbers);
}

}  // namespace rnnserve
