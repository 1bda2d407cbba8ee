// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/recurrent_service.h"

#include <google/protobuf/arena.h>

#include <utility>

#include "server/api/native/infer_codec.h"
#include "server/api/native/session_stream.h"
#include "server/api/native/target_calls.h"
#include "server/rpc/callback.h"

namespace rnnserve {
namespace {

// Small requests need no other memory for their messages.
constexpr size_t kArenaBlock = 2048;

}  // namespace

RecurrentService::RecurrentService(Core* core, SessionCore* sessions) : core_(core) {
  methods_.push_back({"Recurrent.Infer", PostUnary(service_, "/rnnserve.v1.Recurrent/Infer"),
                      [this](UnaryCall& call) { return Infer(call); }});
  stream_.name = "Recurrent.Stream";
  stream_.post = PostStream(service_, "/rnnserve.v1.Recurrent/Stream");
  stream_.open = [sessions](std::shared_ptr<StreamCall> call) {
    return std::make_unique<SessionStream>(sessions, std::move(call));
  };
}

Task<UnaryReply> RecurrentService::Infer(UnaryCall& call) {
  uint64_t block[kArenaBlock / 8];  // chars would not be aligned: coroutines of GCC 12 forget alignas
  google::protobuf::Arena arena(reinterpret_cast<char*>(block), sizeof(block));
  auto& request = *google::protobuf::Arena::CreateMessage<v1::InferRequest>(&arena);
  absl::Status status = call.Parse(request);
  if (!status.ok()) co_return UnaryReply{std::move(status), {}};
  absl::StatusOr<InferCall> infer = DecodeInfer(request);
  if (!infer.ok()) {
    call.set_model(CallsOfTarget(*core_, request));
    co_return UnaryReply{infer.status(), {}};
  }
  infer->deadline = call.deadline();
  infer->cancelled = call.cancelled();
  infer->caller_id = call.caller_id();
  infer->tenant = call.caller()->tenant;
  call.set_request_id(request.request_id());

  absl::StatusOr<InferRunPtr> accepted = core_->Accept(*infer);
  call.set_model(accepted.ok() ? core_->CallsOf((*accepted)->call().resolved->label) : CallsOfTarget(*core_, request));
  if (!accepted.ok()) co_return UnaryReply{accepted.status(), {}};
  if ((*accepted)->takes_long()) co_await call.LeavePoller();

  Callback<absl::StatusOr<InferReply>> inferring([&](auto done) { core_->Run(*std::move(accepted), std::move(done)); });
  absl::StatusOr<InferReply> reply = co_await inferring;
  if (!reply.ok()) co_return UnaryReply{reply.status(), {}};

  grpc::Slice slice;
  EncodeInfer(request.request_id(), *reply, [&](size_t size) {
    slice = grpc::Slice(size);
    return const_cast<uint8_t*>(slice.begin());  // ours alone
  });
  std::optional<ByteBudget::Share> held = std::move(reply->memory);
  if (held) held->Took();
  co_return UnaryReply{absl::OkStatus(), grpc::ByteBuffer(&slice, 1), std::move(held)};
}

}  // namespace rnnserve
