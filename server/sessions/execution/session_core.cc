// SPDX-License-Identifier: Apache-2.0
// Operations and reads. Opening is in session_open.cc.
#include "server/sessions/execution/session_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/recycled.h"
#include "base/steady_now.h"
#include "server/sessions/execution/session_digest.h"
#include "server/sessions/execution/session_run.h"

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

void SessionCore::Apply(OperationCall call, OperationDone done) {
  absl::StatusOr<SessionPtr> session = sessions_->Find(call.session, call.tenant);
  if (!session.ok()) {
    OperationAnswer answer;
    answer.status = session.status();
    answer.calls = core_->CallsOf(kUnknownModel);
    if (const std::optional<Numbers> numbers = rnnserve::NumbersOf(answer.status)) {
      answer.has_numbers = true;
      answer.numbers = *numbers;
    }
    return done(std::move(answer));
  }
  Claim claim;
  claim.number = call.number;
  claim.owner_epoch = call.owner_epoch;
  claim.attachment = call.owner != nullptr ? call.owner->Of(*sessions_, (*session)->key().id)
                     : call.number         ? sessions_->Attach()
                                           : kNoAttachment;
  claim.of_stream = call.owner != nullptr;
  claim.closes = std::holds_alternative<CloseOp>(call.kind);
  // An operation without a number cannot be repeated, so it ends with its caller; a numbered one runs to its end.
  absl::Time ends = absl::InfiniteFuture();
  if (call.timeout) {
    claim.deadline = clock_->Now() + *call.timeout;
    ends = SteadyNow() + *call.timeout;
  }
  if (call.number) {
    call.cancelled = nullptr;
  } else {
    ends = std::min(ends, call.deadline);
  }
  call.deadline = ends;
  auto model = std::static_pointer_cast<const SessionModel>((*session)->subject());
  const auto run =
      MakeRecycled<SessionRun>(std::move(model), std::move(call), core_, options_.max_rows, std::move(done));
  claim.fault = OrOutOfMemory([&] { return run->Prepare(); });
  if (!run->digest()) {
    OperationAnswer answer;
    answer.status = std::move(claim.fault);
    answer.has_numbers = true;
    answer.numbers = (*session)->NoteRefused(claim.number, answer.status);
    answer.status = WithNumbers(std::move(answer.status), answer.numbers);
    return run->Answer(std::move(answer));
  }
  claim.digest = *run->digest();
  claim.reply_bytes = run->reply_bytes();
  claim.granted = [run](Lease lease) { run->Start(std::move(lease)); };
  claim.done = [run](Outcome outcome) { run->Answer(std::move(outcome)); };
  sessions_->Acquire(*session, std::move(claim));
}

void SessionCore::GetState(ReadCall call, StateDone done) {
  absl::StatusOr<SessionPtr> session = sessions_->Find(call.session, call.tenant);
  if (!session.ok()) return done(session.status());
  ReadRequest read = ReadOf(call);
  read.carries_over = true;
  read.done = [this, connection = call.connection, done = std::move(done)](absl::StatusOr<Snapshot> snapshot) mutable {
    if (!snapshot.ok()) return done(snapshot.status());
    const SessionModel& model = ModelOf(snapshot->subject);
    absl::StatusOr<ByteBudget::Share> memory = core_->TakeMemory(connection, model.TensorBytes(snapshot->state->rows));
    if (!memory.ok()) return done(WithNumbers(memory.status(), snapshot->numbers));
    absl::StatusOr<std::vector<OutputTensor>> tensors = OrOutOfMemory([&] { return model.Export(*snapshot->state); });
    if (!tensors.ok()) return done(WithNumbers(tensors.status(), snapshot->numbers));
    done(StateReply{snapshot->numbers, model.fingerprint(), *std::move(tensors), *std::move(memory)});
  };
  sessions_->Read(*session, std::move(read));
}

void SessionCore::Checkpoint(ReadCall call, std::string name, NumbersDone done) {
  absl::StatusOr<SessionPtr> session = sessions_->Find(call.session, call.tenant);
  if (!session.ok()) return done(session.status());
  if (name.empty() || name.size() > kMaxCheckpointNameBytes) {
    return done(WithNumbers(FieldError("name", absl::StrCat("the checkpoint's name has ", name.size(),
                                                            " bytes; expected 1 to ", kMaxCheckpointNameBytes)),
                            (*session)->view().numbers));
  }
  ReadRequest read = ReadOf(call);
  read.checkpoint = std::move(name);
  read.done = [done = std::move(done)](absl::StatusOr<Snapshot> snapshot) mutable {
    if (!snapshot.ok()) return done(snapshot.status());
    done(snapshot->numbers);
  };
  sessions_->Read(*session, std::move(read));
}

void SessionCore::Fork(ForkCall call, ForkDone done) {
  absl::StatusOr<SessionPtr> session = sessions_->Find(call.read.session, call.read.tenant);
  if (!session.ok()) return done(session.status());
  ForkSpec spec;
  spec.request = {call.request_id, DigestOf(call)};
  spec.tenant = std::move(call.read.tenant);
  spec.after_number = call.read.after_number;
  spec.in_order = call.read.in_order;
  spec.count = call.count;
  spec.names = std::move(call.names);
  sessions_->Fork(*session, std::move(spec), std::move(done));
}

absl::StatusOr<SessionInfos> SessionCore::List(std::string_view tenant, int64_t page_size, std::string_view token) {
  absl::StatusOr<SessionPage> page = sessions_->List(tenant, page_size, token);
  if (!page.ok()) return page.status();
  SessionInfos infos;
  infos.next_token = std::move(page->next_token);
  for (SessionPage::Item& item : page->items) {
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
