// SPDX-License-Identifier: Apache-2.0
// Operations. Opening is in session_open.cc, reads are in session_core_reads.cc.
#include "server/sessions/execution/session_core.h"

#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "base/recycled.h"
#include "base/steady_now.h"
#include "server/sessions/execution/session_run.h"

namespace rnnserve {

Attachment SessionCore::AttachmentOf(const OperationCall& call, const SessionId& id, bool is_here) {
  return call.owner != nullptr ? call.owner->Of(*sessions_, id, is_here)
         : call.number         ? sessions_->Attach()
                               : kNoAttachment;
}

void SessionCore::RefuseUnfound(absl::Status why, OperationDone done) {
  ApplyReply answer;
  answer.status = std::move(why);
  answer.calls = core_->CallsOf(kUnknownModel);
  if (const std::optional<Numbers> numbers = rnnserve::NumbersOf(answer.status)) {
    answer.has_numbers = true;
    answer.numbers = *numbers;
  }
  done(std::move(answer));
}

void SessionCore::Apply(OperationCall&& call, OperationDone done) {
  absl::StatusOr<SessionPtr> session = sessions_->Find(call.session, call.tenant);
  if (session.ok()) {
    const Attachment attachment = AttachmentOf(call, (*session)->key().id, /*is_here=*/true);
    return ApplyTo(*session, attachment, std::move(call), std::move(done));
  }
  if (!IsElsewhere(session.status())) return RefuseUnfound(session.status(), std::move(done));
  const std::string_view key = call.session, tenant = call.tenant;
  const Attachment attachment = AttachmentOf(call, SessionKey::Parse(key)->id, /*is_here=*/false);
  sessions_->Fetch(
      key, tenant,
      [this, attachment, call = std::move(call), done = std::move(done)](absl::StatusOr<SessionPtr> fetched) mutable {
        if (!fetched.ok()) return RefuseUnfound(fetched.status(), std::move(done));
        ApplyTo(*fetched, attachment, std::move(call), std::move(done));
      });
}

void SessionCore::ApplyTo(const SessionPtr& session, Attachment attachment, OperationCall&& call, OperationDone done) {
  Claim claim;
  claim.number = call.number;
  claim.owner_epoch = call.owner_epoch;
  claim.attachment = attachment;
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
  auto model = std::static_pointer_cast<const SessionModel>(session->subject());
  auto run = MakeRecycled<SessionRun>(std::move(model), std::move(call), core_, options_.max_rows, std::move(done));
  claim.fault = OrOutOfMemory([&] { return run->Prepare(); });
  if (!run->digest()) {
    ApplyReply answer;
    answer.status = std::move(claim.fault);
    answer.has_numbers = true;
    answer.numbers = session->NoteRefused(claim.number, answer.status);
    answer.status = WithNumbers(std::move(answer.status), answer.numbers);
    return run->Answer(std::move(answer));
  }
  claim.digest = *run->digest();
  claim.reply_bytes = run->reply_bytes();
  claim.granted = [run](Lease&& lease) { run->Start(std::move(lease)); };
  claim.done = [run = std::move(run)](Outcome&& outcome) { run->Answer(std::move(outcome)); };
  sessions_->Acquire(session, std::move(claim));
}

}  // namespace rnnserve
