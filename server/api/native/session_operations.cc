// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/session_operations.h"

#include <utility>

#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/api/native/session_codec.h"
#include "server/api/native/target_calls.h"

namespace rnnserve {
namespace {

// Of the fields of what the operation carries: "chunk."
std::string PrefixOf(const OperationHead& head) {
  const auto* const kind = v1::Operation::descriptor()->FindFieldByNumber(head.kind);
  return kind == nullptr ? "" : kind->name() + ".";
}

// What every reply says of its operation.
v1::OperationReply Echo(const OperationHead& head) {
  v1::OperationReply reply;
  reply.set_request_id(std::string(head.request_id));
  reply.set_session(std::string(head.session));
  if (head.number) reply.set_number(*head.number);
  return reply;
}

// `write` fills `size` bytes.
template <typename Write>
grpc::Slice PartOf(size_t size, Write write) {
  grpc::Slice slice(PartSize(size));
  write(BeginPart(size, const_cast<uint8_t*>(slice.begin())));  // ours alone
  return slice;
}

grpc::Slice PartOf(const v1::OperationReply& reply) {
  return PartOf(reply.ByteSizeLong(), [&](uint8_t* at) { reply.SerializeWithCachedSizesToArray(at); });
}

// For everything but changes: their results fill in one field of the reply.
class Answering {
 public:
  Answering(SessionCore& core, const v1::Operation& operation, std::string_view tenant, EncodedReplyDone done)
      : core_(core), operation_(operation), head_(HeadOf(operation)), tenant_(tenant), done_(std::move(done)) {}

  void Fail(const absl::Status& status) {
    Done(RefuseOperation(core_, head_, tenant_, WithFieldPrefix(status, PrefixOf(head_))));
  }
  template <typename Fill>
  void Succeed(Fill fill, std::optional<ByteBudget::Share> held = {}) {
    const absl::StatusOr<grpc::Slice> part = OrOutOfMemory([&]() -> absl::StatusOr<grpc::Slice> {
      v1::OperationReply reply = Echo(head_);
      reply.mutable_status();
      fill(reply);
      return PartOf(reply);
    });
    if (!part.ok()) return Fail(part.status());
    Done({absl::OkStatus(), *part, std::move(held)});
  }

 private:
  void Done(EncodedReply replied) {
    if (operation_.has_open()) replied.calls = CallsOfTarget(core_.core(), operation_.open());
    done_(std::move(replied));
  }

  SessionCore& core_;
  const v1::Operation& operation_;
  const OperationHead head_;
  const std::string tenant_;
  EncodedReplyDone done_;
};

absl::Status CheckSame(const v1::Operation& operation, const std::string& session) {
  if (operation.session().empty() || session.empty() || operation.session() == session) return absl::OkStatus();
  return FieldError("session", "the operation and what it carries name two sessions; name one");
}

// Completes `call` by what the operation says: its session is named once, or twice the same.
template <typename Call>
absl::StatusOr<Call> Completed(const v1::Operation& operation, const OperationSender& sender,
                               absl::StatusOr<Call> call) {
  if (!call.ok()) return call;
  ReadCall& read = *call;
  RETURN_IF_ERROR(CheckSame(operation, read.session));
  if (read.session.empty()) read.session = operation.session();
  read.tenant = std::string(sender.tenant);
  read.caller_id = sender.caller_id;
  read.in_order = sender.owner != nullptr;
  return call;
}

using AnsweringPtr = std::unique_ptr<Answering>;

void RunOpen(SessionCore& core, const v1::Operation& operation, const OperationSender& sender, AnsweringPtr answering) {
  absl::StatusOr<OpenCall> call = OrOutOfMemory([&] { return DecodeOpen(operation.open()); });
  if (!call.ok()) return answering->Fail(call.status());
  call->tenant = std::string(sender.tenant);
  core.Open(*std::move(call), [answering = std::move(answering)](absl::StatusOr<OpenReply> reply) {
    if (!reply.ok()) return answering->Fail(reply.status());
    answering->Succeed([&](v1::OperationReply& message) {
      message.set_session(reply->key);
      EncodeOpen(*reply, *message.mutable_open());
    });
  });
}

void RunGetState(SessionCore& core, const v1::Operation& operation, const OperationSender& sender,
                 AnsweringPtr answering) {
  absl::StatusOr<ReadCall> call = Completed(operation, sender, DecodeGetState(operation.get_state()));
  if (!call.ok()) return answering->Fail(call.status());
  core.GetState(*std::move(call), [answering = std::move(answering)](absl::StatusOr<StateReply> reply) {
    if (!reply.ok()) return answering->Fail(reply.status());
    std::optional<ByteBudget::Share> held = std::move(reply->memory);
    const auto fill = [&](v1::OperationReply& message) {
      EncodeNumbers(reply->numbers, message);
      EncodeGetState(*std::move(reply), *message.mutable_get_state());
    };
    answering->Succeed(fill, std::move(held));
  });
}

void RunFork(SessionCore& core, const v1::Operation& operation, const OperationSender& sender, AnsweringPtr answering) {
  absl::StatusOr<ForkCall> call = Completed(operation, sender, DecodeFork(operation.fork()));
  if (!call.ok()) return answering->Fail(call.status());
  core.Fork(*std::move(call), [answering = std::move(answering)](absl::StatusOr<ForkedSessions> forked) {
    if (!forked.ok()) return answering->Fail(forked.status());
    answering->Succeed([&](v1::OperationReply& message) { EncodeFork(*std::move(forked), *message.mutable_fork()); });
  });
}

void RunCheckpoint(SessionCore& core, const v1::Operation& operation, const OperationSender& sender,
                   AnsweringPtr answering) {
  absl::StatusOr<ReadCall> call = Completed(operation, sender, DecodeCheckpoint(operation.checkpoint()));
  if (!call.ok()) return answering->Fail(call.status());
  core.Checkpoint(*std::move(call), operation.checkpoint().name(),
                  [answering = std::move(answering)](absl::StatusOr<Numbers> numbers) {
                    if (!numbers.ok()) return answering->Fail(numbers.status());
                    answering->Succeed([&](v1::OperationReply& message) {
                      EncodeNumbers(*numbers, message);
                      EncodeCheckpoint(*numbers, *message.mutable_checkpoint());
                    });
                  });
}

}  // namespace

EncodedReply RefuseOperation(SessionCore& core, const OperationHead& head, std::string_view tenant, absl::Status why) {
  const absl::Status status = core.Refused(head.session, tenant, head.number, std::move(why));
  v1::OperationReply reply = Echo(head);
  EncodeStatus(status, reply);
  return {status, PartOf(reply)};
}

bool IsChange(const v1::Operation& operation) {
  return !operation.has_open() && !operation.has_get_state() && !operation.has_fork() && !operation.has_checkpoint();
}

EncodedReply ReplyTo(const OperationHead& head, ApplyReply answer) {
  EncodedReply replied{{}, {}, std::move(answer.memory), answer.calls};
  if (answer.status.ok()) {
    replied.status = OrOutOfMemory([&] {
      replied.part = PartOf(ReplySize(head, answer), [&](uint8_t* at) { WriteReply(head, answer, at); });
      return absl::OkStatus();
    });
    if (replied.status.ok()) return replied;
    // What is applied stays applied: a refused caller asks again.
  } else {
    replied.status = WithFieldPrefix(std::move(answer.status), PrefixOf(head));
  }
  v1::OperationReply refusal = Echo(head);
  if (answer.has_numbers) EncodeNumbers(answer.numbers, refusal);
  if (answer.number != 0) refusal.set_number(answer.number);
  EncodeStatus(replied.status, refusal);
  replied.part = PartOf(refusal);
  return replied;
}

void RunOperation(SessionCore& core, const v1::Operation& operation, const OperationSender& sender,
                  EncodedReplyDone done) {
  if (IsChange(operation)) {
    absl::StatusOr<OperationCall> call = OrOutOfMemory([&] { return DecodeOperation(operation, sender); });
    if (!call.ok()) return done(RefuseOperation(core, HeadOf(operation), sender.tenant, call.status()));
    return core.Apply(*std::move(call), [&operation, done = std::move(done)](ApplyReply answer) mutable {
      done(ReplyTo(HeadOf(operation), std::move(answer)));
    });
  }
  auto answering = std::make_unique<Answering>(core, operation, sender.tenant, std::move(done));
  switch (operation.kind_case()) {
    case v1::Operation::kOpen:
      return RunOpen(core, operation, sender, std::move(answering));
    case v1::Operation::kGetState:
      return RunGetState(core, operation, sender, std::move(answering));
    case v1::Operation::kFork:
      return RunFork(core, operation, sender, std::move(answering));
    case v1::Operation::kCheckpoint:
      return RunCheckpoint(core, operation, sender, std::move(answering));
    default:
      return;  // a change
  }
}

}  // namespace rnnserve
