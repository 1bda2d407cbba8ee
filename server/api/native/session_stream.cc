// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/session_stream.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "base/out_of_memory.h"
#include "base/recycled.h"
#include "base/steady_now.h"
#include "rnnserve/v1/recurrent.pb.h"
#include "server/api/native/plain_chunks.h"
#include "server/api/native/reply_bytes.h"
#include "server/api/native/session_codec.h"
#include "server/rpc/message_bytes.h"

namespace rnnserve {
namespace {

constexpr size_t kMaxPollerBytes = 1 << 20;
// Larger messages are few, and their bytes are guarded before they are parsed (ParseBytes).
constexpr size_t kMaxPlainBytes = 64 << 10;
// Replies of up to about 4 KiB are copied into blocks of the stream (Outbox); some room more for what WritePart counts
// too much.
constexpr size_t kMostCopiedBytes = (4 << 10) + 512;
// Operations of a message: so many are worth the way to another thread, and so many run at a time, so that the caller
// has the first answers while the next ones are computed.
constexpr size_t kMany = 16, kPart = 32;

// Whether the message has so many, if all are as large as the first one.
bool HasMany(grpc::ByteBuffer& bytes) {
  grpc::ProtoBufferReader reader(&bytes);
  google::protobuf::io::CodedInputStream input(&reader);
  uint32_t first = 0;
  return bytes.Length() >= kMany && input.ReadTag() != 0 && input.ReadVarint32(&first) &&
         bytes.Length() / (size_t{first} + 1) >= kMany;
}

}  // namespace

// One message, in memory until all of its operations are over.
class SessionStream::Message : public Recycled {
 public:
  Message(SessionStream& stream, absl::StatusOr<CallAdmission::InFlight> in_flight)
      : stream_(stream),
        call_(stream.call_),
        sender_{{.caller_id = call_->caller_id(), .cancelled = call_->cancelled()},
                call_->caller()->tenant,
                &stream.owner_},
        arrived_(SteadyNow()),
        in_flight_(std::move(in_flight)) {}
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // Keeps the message, and the stream with it.
  struct Unref {
    void operator()(Message* message) const {
      if (message->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete message;
    }
  };
  using Ref = std::unique_ptr<Message, Unref>;
  Ref NewRef() {
    refs_.fetch_add(1, std::memory_order_relaxed);
    return Ref(this);
  }

  // Else its operations are refused.
  absl::Status entered() const { return in_flight_.status(); }
  absl::Status Parse(grpc::ByteBuffer& bytes) {
    if (bytes.Length() <= kMaxPlainBytes) {
      bytes_ = BytesOf(bytes);
      if (ReadPlainChunks(bytes_.view(), chunks_)) return absl::OkStatus();
      chunks_ = PlainChunks();
      bytes_ = Elements();
    }
    request_ = google::protobuf::Arena::CreateMessage<v1::StreamRequest>(&arena_.emplace(block_, sizeof(block_)));
    return ParseBytes(bytes, *request_);
  }
  size_t size() const {
    return request_ == nullptr ? chunks_.size() : static_cast<size_t>(request_->operations_size());
  }
  // The operation: one of these.
  const PlainChunk* chunk(size_t k) const { return request_ == nullptr ? &chunks_[k] : nullptr; }
  const v1::Operation* operation(size_t k) const {
    return request_ == nullptr ? nullptr : &request_->operations(static_cast<int>(k));
  }
  const OperationSender& sender() const { return sender_; }
  SessionStream& stream() { return stream_; }
  const std::shared_ptr<StreamCall>& call() const { return call_; }
  absl::Time arrived() const { return arrived_; }

 private:
  SessionStream& stream_;
  const std::shared_ptr<StreamCall> call_;
  const OperationSender sender_;
  const absl::Time arrived_;
  std::atomic<int64_t> refs_ = 0;
  const absl::StatusOr<CallAdmission::InFlight> in_flight_;
  Elements bytes_;
  PlainChunks chunks_;  // of them, or
  v1::StreamRequest* request_ = nullptr;
  alignas(8) char block_[1024];  // enough for a small message
  std::optional<google::protobuf::Arena> arena_;
};

// One operation of a message: what its answer needs. Two words, which a callback keeps without memory of its own.
class SessionStream::PendingOperation {
 public:
  PendingOperation(Message& message, size_t k) : message_(message.NewRef()), k_(k) {}

  Message& message() const { return *message_; }
  void Release() { message_.reset(); }
  // Null: another operation.
  const PlainChunk* chunk() const { return message_->chunk(k_); }
  // Not of a plain chunk.
  const v1::Operation& operation() const { return *message_->operation(k_); }
  OperationHead head() const { return chunk() != nullptr ? HeadOf(*chunk()) : HeadOf(operation()); }
  bool is_change() const { return chunk() != nullptr || IsChange(operation()); }
  absl::StatusOr<OperationCall> Decode() const {
    if (const PlainChunk* plain = chunk()) return CallOf(*plain, message_->sender());
    return DecodeOperation(operation(), message_->sender());
  }

 private:
  Message::Ref message_;
  size_t k_;
};

Task<absl::Status> SessionStream::OnMessage(grpc::ByteBuffer bytes, absl::StatusOr<CallAdmission::InFlight> in_flight) {
  const size_t size = bytes.Length();
  const Message::Ref message = (new Message(*this, std::move(in_flight)))->NewRef();
  if (size > kMaxPollerBytes) {
    co_await call_->LeavePoller();
  } else if (HasMany(bytes)) {
    co_await call_->ShareMany();
  }
  absl::Status parsed = message->Parse(bytes);
  bytes.Clear();
  call_->Parsed();
  if (!parsed.ok()) co_return parsed;
  for (size_t k = 0; k < message->size(); ++k) {
    PendingOperation pending(*message, k);
    if (const absl::Status entered = message->entered(); !entered.ok()) {
      co_await call_->UntilRoom();
      SendReply(pending, Refusal(pending, entered));
      continue;
    }
    if (k > 0 && k % kPart == 0 && message->size() - k >= kMany) call_->RunWork();
    co_await call_->BeginWhenRoom();
    if (pending.chunk() == nullptr && pending.operation().has_open()) {
      Open(std::move(pending));
    } else {
      Run(std::move(pending));
    }
  }
  co_return absl::OkStatus();
}

CallTask SessionStream::Open(PendingOperation pending) {
  co_await call_->LeavePoller();
  Run(std::move(pending));
}

void SessionStream::Run(PendingOperation pending) {
  if (pending.is_change()) {
    absl::StatusOr<OperationCall> call = OrOutOfMemory([&] { return pending.Decode(); });
    if (!call.ok()) {
      SendReply(pending, Refusal(pending, call.status()));
      return Finish(std::move(pending));
    }
    return core_->Apply(*std::move(call), [pending = std::move(pending)](ApplyReply&& answer) mutable {
      Finish(std::move(pending), std::move(answer));
    });
  }
  const v1::Operation& operation = pending.operation();
  const OperationSender& sender = pending.message().sender();
  RunOperation(*core_, operation, sender, [pending = std::move(pending)](EncodedReply replied) mutable {
    pending.message().stream().SendReply(pending, std::move(replied));
    Finish(std::move(pending));
  });
}

void SessionStream::Finish(PendingOperation pending) {
  const std::shared_ptr<StreamCall> call = pending.message().call();
  pending.Release();
  call->EndWork();  // the stream may end, and the handler with it
}

void SessionStream::Finish(PendingOperation pending, ApplyReply&& answer) {
  const OperationHead head = pending.head();
  std::array<uint8_t, kMostCopiedBytes> room;
  const std::span<const uint8_t> part = answer.status.ok() ? WritePart(head, answer, room) : std::span<const uint8_t>();
  if (part.empty()) {
    pending.message().stream().SendReply(pending, ReplyTo(head, std::move(answer)));
    return Finish(std::move(pending));
  }
  const std::shared_ptr<StreamCall> call = pending.message().call();
  call->RecordOperation(answer.status, head.request_id, pending.message().arrived(), answer.calls);
  pending.Release();  // before the stream may end, and the handler with it
  call->SendLastCopy(part, std::move(answer.memory));
}

void SessionStream::SendReply(const PendingOperation& pending, EncodedReply replied) {
  call_->RecordOperation(replied.status, pending.head().request_id, pending.message().arrived(), replied.calls);
  call_->Send(std::move(replied.part), std::move(replied.held));
}

EncodedReply SessionStream::Refusal(const PendingOperation& pending, const absl::Status& status) {
  return RefuseOperation(*core_, pending.head(), call_->caller()->tenant, status);
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
