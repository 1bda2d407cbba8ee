// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/sessions_service.h"

#include <google/protobuf/arena.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "server/api/native/session_codec.h"
#include "server/api/native/session_operations.h"
#include "server/api/native/target_calls.h"
#include "server/rpc/callback.h"
#include "server/rpc/message_bytes.h"

namespace rnnserve {
namespace {

template <typename Message>
absl::StatusOr<Message*> Parse(UnaryCall& call, google::protobuf::Arena& arena) {
  Message* message = google::protobuf::Arena::CreateMessage<Message>(&arena);
  RETURN_IF_ERROR(call.Parse(*message));
  return message;
}

UnaryReply Refusal(absl::Status status) { return {std::move(status), {}, {}}; }

template <typename Response, typename Fill>
UnaryReply Reply(google::protobuf::Arena& arena, Fill fill) {
  Response& response = *google::protobuf::Arena::CreateMessage<Response>(&arena);
  fill(response);
  return {absl::OkStatus(), SerialiseBytes(response), {}};
}

}  // namespace

SessionsService::SessionsService(SessionCore* core) : core_(core) {
  const auto add = [this](const char* name, const char* path, auto handle, int64_t max_poller_bytes,
                          bool while_draining) {
    methods_.push_back({absl::StrCat("Sessions.", name), PostUnary(service_, path),
                        [this, handle](UnaryCall& call) { return (this->*handle)(call); }, max_poller_bytes,
                        Permission::kUse, while_draining,
                        /*metrics=*/nullptr});
  };
  constexpr int64_t kSmall = 1 << 20;
  add("Open", "/rnnserve.v1.Sessions/Open", &SessionsService::Open, 0, false);  // may hash and pack weights
  add("Apply", "/rnnserve.v1.Sessions/Apply", &SessionsService::Apply, kSmall, true);
  add("GetState", "/rnnserve.v1.Sessions/GetState", &SessionsService::GetState, kSmall, true);
  add("Fork", "/rnnserve.v1.Sessions/Fork", &SessionsService::Fork, kSmall, false);
  add("Checkpoint", "/rnnserve.v1.Sessions/Checkpoint", &SessionsService::Checkpoint, kSmall, true);
  add("List", "/rnnserve.v1.Sessions/List", &SessionsService::List, 0, true);  // may be long
}

Task<UnaryReply> SessionsService::Open(UnaryCall& call) {
  google::protobuf::Arena arena;
  const absl::StatusOr<v1::OpenRequest*> request = Parse<v1::OpenRequest>(call, arena);
  if (!request.ok()) co_return Refusal(request.status());
  call.set_model(CallsOfTarget(core_->core(), **request));
  absl::StatusOr<OpenCall> open = DecodeOpen(**request);
  if (!open.ok()) co_return Refusal(open.status());
  open->tenant = call.caller()->tenant;
  Callback<absl::StatusOr<OpenReply>> opening([&](auto done) { core_->Open(*std::move(open), std::move(done)); });
  const absl::StatusOr<OpenReply> reply = co_await opening;
  if (!reply.ok()) co_return Refusal(reply.status());
  co_return Reply<v1::OpenResponse>(arena, [&](v1::OpenResponse& response) { EncodeOpen(*reply, response); });
}

Task<UnaryReply> SessionsService::Apply(UnaryCall& call) {
  google::protobuf::Arena arena;
  const absl::StatusOr<v1::ApplyRequest*> request = Parse<v1::ApplyRequest>(call, arena);
  if (!request.ok()) co_return Refusal(request.status());
  if (!(*request)->has_operation()) co_return Refusal(FieldError("operation", "the request has no operation"));
  const v1::Operation& operation = (*request)->operation();
  if (operation.has_open()) co_await call.LeavePoller();
  const OperationSender sender = {
      {.caller_id = call.caller_id(), .deadline = call.deadline(), .cancelled = call.cancelled()},
      call.caller()->tenant};
  Callback<EncodedReply> applying([&](auto done) { RunOperation(*core_, operation, sender, std::move(done)); });
  EncodedReply replied = co_await applying;
  call.set_model(replied.calls);
  if (!replied.status.ok()) {
    call.set_request_id(operation.request_id());  // for the log
    co_return Refusal(WithFieldPrefix(std::move(replied.status), "operation."));
  }
  co_return UnaryReply{absl::OkStatus(), grpc::ByteBuffer(&replied.part, 1), std::move(replied.held)};
}

Task<UnaryReply> SessionsService::GetState(UnaryCall& call) {
  google::protobuf::Arena arena;
  const absl::StatusOr<v1::GetStateRequest*> request = Parse<v1::GetStateRequest>(call, arena);
  if (!request.ok()) co_return Refusal(request.status());
  absl::StatusOr<ReadCall> read = DecodeGetState(**request);
  if (!read.ok()) co_return Refusal(read.status());
  read->tenant = call.caller()->tenant;
  read->caller_id = call.caller_id();
  Callback<absl::StatusOr<StateReply>> looking([&](auto done) { core_->GetState(*std::move(read), std::move(done)); });
  absl::StatusOr<StateReply> reply = co_await looking;
  if (!reply.ok()) co_return Refusal(reply.status());
  std::optional<ByteBudget::Share> held = std::move(reply->memory);
  UnaryReply encoded = Reply<v1::GetStateResponse>(
      arena, [&](v1::GetStateResponse& response) { EncodeGetState(*std::move(reply), response); });
  encoded.held = std::move(held);
  co_return encoded;
}

Task<UnaryReply> SessionsService::Fork(UnaryCall& call) {
  google::protobuf::Arena arena;
  const absl::StatusOr<v1::ForkRequest*> request = Parse<v1::ForkRequest>(call, arena);
  if (!request.ok()) co_return Refusal(request.status());
  absl::StatusOr<ForkCall> fork = DecodeFork(**request);
  if (!fork.ok()) co_return Refusal(fork.status());
  fork->tenant = call.caller()->tenant;
  Callback<absl::StatusOr<ForkedSessions>> forking([&](auto done) { core_->Fork(*std::move(fork), std::move(done)); });
  absl::StatusOr<ForkedSessions> forked = co_await forking;
  if (!forked.ok()) co_return Refusal(forked.status());
  co_return Reply<v1::ForkResponse>(arena,
                                    [&](v1::ForkResponse& response) { EncodeFork(*std::move(forked), response); });
}

Task<UnaryReply> SessionsService::Checkpoint(UnaryCall& call) {
  google::protobuf::Arena arena;
  const absl::StatusOr<v1::CheckpointRequest*> request = Parse<v1::CheckpointRequest>(call, arena);
  if (!request.ok()) co_return Refusal(request.status());
  absl::StatusOr<ReadCall> read = DecodeCheckpoint(**request);
  if (!read.ok()) co_return Refusal(read.status());
  read->tenant = call.caller()->tenant;
  Callback<absl::StatusOr<Numbers>> looking(
      [&](auto done) { core_->Checkpoint(*std::move(read), (*request)->name(), std::move(done)); });
  const absl::StatusOr<Numbers> numbers = co_await looking;
  if (!numbers.ok()) co_return Refusal(numbers.status());
  co_return Reply<v1::CheckpointResponse>(
      arena, [&](v1::CheckpointResponse& response) { EncodeCheckpoint(*numbers, response); });
}

Task<UnaryReply> SessionsService::List(UnaryCall& call) {
  google::protobuf::Arena arena;
  const absl::StatusOr<v1::ListSessionsRequest*> request = Parse<v1::ListSessionsRequest>(call, arena);
  if (!request.ok()) co_return Refusal(request.status());
  const absl::StatusOr<int64_t> page_size = DecodePageSize(**request);
  if (!page_size.ok()) co_return Refusal(page_size.status());
  absl::StatusOr<SessionInfos> infos = core_->List(call.caller()->tenant, *page_size, (*request)->page_token());
  if (!infos.ok()) co_return Refusal(infos.status());
  co_return Reply<v1::ListSessionsResponse>(
      arena, [&](v1::ListSessionsResponse& response) { EncodeList(*std::move(infos), response); });
}

}  // namespace rnnserve
