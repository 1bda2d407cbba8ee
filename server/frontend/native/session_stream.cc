// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/native/session_stream.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>

#include <utility>

#include "rnnserve/v1/recurrent.pb.h"
#include "server/frontend/native/session_codec.h"
#include "server/frontend/rpc/message_bytes.h"
#include "server/telemetry/out_of_memory.h"
#include "server/telemetry/steady_now.h"

namespace rnnserve {
namespace {

constexpr size_t kMaxPollerBytes = 1 << 20;
// replies = 1, length-delimited: serialised messages of repeated fields may simply follow one another.
constexpr uint8_t kReplyTag = 1 << 3 | 2;

grpc::Slice PartOf(const v1::OperationReply& reply) {
  using google::protobuf::io::CodedOutputStream;
  const size_t size = reply.ByteSizeLong();
  grpc::Slice slice(1 + CodedOutputStream::VarintSize64(size) + size);
  auto* at = const_cast<uint8_t*>(slice.begin());  // ours alone
  *at++ = kReplyTag;
  at = CodedOutputStream::WriteVarint64ToArray(size, at);
  reply.SerializeWithCachedSizesToArray(at);
  return slice;
}

// The same reply with this status in place of what it has to tell.
v1::OperationReply WithoutContent(const v1::OperationReply& reply, const absl::Status& status) {
  v1::OperationReply refusal;
  refusal.set_request_id(reply.request_id());
  refusal.set_session(reply.session());
  if (reply.has_number()) refusal.set_number(reply.number());
  refusal.set_last_applied(reply.last_applied());
  refusal.set_next_expected(reply.next_expected());
  refusal.set_position(reply.position());
  EncodeStatus(status, refusal);
  return refusal;
}

}  // namespace

// One message, in memory until all of its operations are over.
class SessionStream::Message {
 public:
  Message(CallAdmission* admission, uint64_t connection)
      : admission_(admission), connection_(connection), arrived_(SteadyNow()) {}
  ~Message() {
    if (!inside_bytes_) return;
    if (has_memory_) {
      admission_->LeaveWithMemory(connection_, *inside_bytes_);
    } else {
      admission_->Leave(connection_, *inside_bytes_);
    }
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  absl::Status Enter(int64_t bytes, bool has_memory) {
    absl::Status status = has_memory ? admission_->EnterWithMemory(connection_, bytes, /*even_if_closed=*/true)
                                     : admission_->Enter(connection_, bytes, /*even_if_closed=*/true);
    has_memory_ = has_memory;
    if (status.ok()) inside_bytes_ = bytes;
    return status;
  }
  absl::Status Parse(grpc::ByteBuffer& bytes) { return ParseBytes(bytes, *request_); }
  const v1::StreamRequest& request() const { return *request_; }
  absl::Time arrived() const { return arrived_; }

 private:
  CallAdmission* const admission_;
  const uint64_t connection_;
  const absl::Time arrived_;
  std::optional<int64_t> inside_bytes_;
  bool has_memory_ = false;
  google::protobuf::Arena arena_;
  v1::StreamRequest* const request_ = google::protobuf::Arena::CreateMessage<v1::StreamRequest>(&arena_);
};

Task<absl::Status> SessionStream::OnMessage(grpc::ByteBuffer bytes) {
  const size_t size = bytes.Length();
  const auto message = std::make_shared<Message>(admission_, call_->connection());
  const absl::Status entered = message->Enter(static_cast<int64_t>(size), call_->HasMemory());
  if (size > kMaxPollerBytes) co_await call_->Hop();
  absl::Status parsed = message->Parse(bytes);
  bytes.Clear();
  call_->Parsed();
  if (!parsed.ok()) co_return parsed;
  for (int k = 0; k < message->request().operations_size(); ++k) {
    co_await call_->Room();
    const v1::Operation& operation = message->request().operations(k);
    if (!entered.ok()) {
      Refuse(operation, entered);
      call_->Answered(entered, operation.request_id(), message->arrived(), /*model=*/nullptr);
      continue;
    }
    call_->Began();
    if (operation.has_open()) {
      Open(message, k);
    } else {
      Run(message, k);
    }
  }
  co_return absl::OkStatus();
}

CallTask SessionStream::Open(std::shared_ptr<Message> message, int index) {
  co_await call_->Hop();
  Run(std::move(message), index);
}

void SessionStream::Run(std::shared_ptr<Message> message, int index) {
  const v1::Operation& operation = message->request().operations(index);
  const OperationSender sender = {.tenant = call_->caller()->tenant,
                                  .connection = call_->connection(),
                                  .owner = &owner_,
                                  .deadline = absl::InfiniteFuture(),
                                  .cancelled = call_->cancelled()};
  RunOperation(*core_, operation, sender, [this, call = call_, message](OperationReplied replied) mutable {
    call->Answered(replied.status, replied.reply.request_id(), message->arrived(), replied.calls);
    Send(replied.reply, std::move(replied.held));
    message.reset();
    call->Ended();  // the stream may end, and this object with it
  });
}

void SessionStream::Refuse(const v1::Operation& operation, const absl::Status& status) {
  Send(RefuseOperation(*core_, operation, call_->caller()->tenant, status).reply, {});
}

void SessionStream::Send(const v1::OperationReply& reply, std::shared_ptr<void> held) {
  absl::StatusOr<grpc::Slice> part = OrOutOfMemory([&]() -> absl::StatusOr<grpc::Slice> { return PartOf(reply); });
  // The operation stays applied: a caller that is refused asks again.
  if (!part.ok()) part = PartOf(WithoutContent(reply, part.status()));
  call_->Send(*std::move(part), std::move(held));
}

void SessionStream::OnDrain(absl::Time leaves_at) {
  v1::StreamResponse response;
  v1::StreamResponse::Drain& drain = *response.mutable_drain();
  for (std::string& key : core_->KeysOf(owner_)) {
    const std::optional<Numbers> numbers = core_->NumbersOf(key, call_->caller()->tenant);
    if (!numbers) continue;
    v1::StreamResponse::Drain::Session& session = *drain.add_sessions();
    session.set_session(std::move(key));
    session.set_last_applied(numbers->last_applied);
  }
  const int64_t nanos = absl::ToUnixNanos(WallTimeOf(leaves_at));
  drain.mutable_leaves_at()->set_seconds(nanos / 1'000'000'000);
  drain.mutable_leaves_at()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  const std::string text = response.SerializeAsString();
  call_->Send(grpc::Slice(text));
}

}  // namespace rnnserve
