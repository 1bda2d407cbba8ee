// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/reply_bytes.h"

#include <google/protobuf/io/coded_stream.h>

#include <cstring>
#include <string_view>

#include "rnnserve/v1/sessions.pb.h"

namespace rnnserve {
namespace {

using google::protobuf::io::CodedOutputStream;

enum WireType : uint32_t { kVarint = 0, kLengthDelimited = 2 };

// Counts the bytes that Writer writes.
class ByteCounter {
 public:
  void Varint(uint64_t value) { size_ += CodedOutputStream::VarintSize64(value); }
  void Bytes(std::string_view bytes) { size_ += bytes.size(); }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

class Writer {
 public:
  explicit Writer(uint8_t* to) : to_(to) {}
  void Varint(uint64_t value) { to_ = CodedOutputStream::WriteVarint64ToArray(value, to_); }
  void Bytes(std::string_view bytes) {
    std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }
  uint8_t* end() const { return to_; }

 private:
  uint8_t* to_;
};

// Fields of proto3: what is zero is left out, unless a field has presence.
template <typename Sink>
void Number(Sink& sink, uint32_t field, uint64_t value, bool is_present = false) {
  if (value == 0 && !is_present) return;
  sink.Varint(field << 3 | kVarint);
  sink.Varint(value);
}

template <typename Sink>
void Text(Sink& sink, uint32_t field, std::string_view text) {
  if (text.empty()) return;
  sink.Varint(field << 3 | kLengthDelimited);
  sink.Varint(text.size());
  sink.Bytes(text);
}

template <typename Sink, typename Fill>
void Part(Sink& sink, uint32_t field, Fill fill) {
  ByteCounter counter;
  fill(counter);
  sink.Varint(field << 3 | kLengthDelimited);
  sink.Varint(counter.size());
  fill(sink);
}

template <typename Sink>
void Duration(Sink& sink, uint32_t field, absl::Duration duration) {
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  using google::protobuf::Duration;
  Part(sink, field, [&](auto& part) {
    Number(part, Duration::kSecondsFieldNumber, static_cast<uint64_t>(nanos / 1'000'000'000));
    Number(part, Duration::kNanosFieldNumber, static_cast<uint64_t>(nanos % 1'000'000'000));
  });
}

template <typename Sink>
void Tensor(Sink& sink, uint32_t field, const OutputTensor& tensor) {
  using v1::Tensor;
  Part(sink, field, [&](auto& part) {
    Text(part, Tensor::kNameFieldNumber, tensor.name);
    Number(part, Tensor::kDataTypeFieldNumber, static_cast<uint64_t>(tensor.type));
    if (!tensor.shape.empty()) {
      Part(part, Tensor::kShapeFieldNumber, [&](auto& shape) {
        for (const int64_t axis : tensor.shape) shape.Varint(static_cast<uint64_t>(axis));
      });
    }
    Text(part, Tensor::kRawFieldNumber, tensor.bytes.view());
  });
}

template <typename Sink>
void Reply(Sink& sink, const OperationHead& head, const ApplyReply& answer) {
  using v1::OperationReply;
  const OperationResult& result = *answer.result;
  Text(sink, OperationReply::kRequestIdFieldNumber, head.request_id);
  Text(sink, OperationReply::kSessionFieldNumber, head.session);
  if (head.number || answer.number != 0) {
    Number(sink, OperationReply::kNumberFieldNumber, answer.number != 0 ? answer.number : *head.number,
           /*is_present=*/true);
  }
  Part(sink, OperationReply::kStatusFieldNumber, [](auto&) {});
  Number(sink, OperationReply::kLastAppliedFieldNumber, answer.numbers.last_applied);
  Number(sink, OperationReply::kNextExpectedFieldNumber, answer.numbers.next_expected());
  Number(sink, OperationReply::kPositionFieldNumber, answer.numbers.position);
  for (const OutputTensor& output : result.outputs) Tensor(sink, OperationReply::kOutputsFieldNumber, output);
  Text(sink, OperationReply::kEngineFieldNumber, result.engine);
  Duration(sink, OperationReply::kQueueTimeFieldNumber, result.queue_time);
  Duration(sink, OperationReply::kComputeTimeFieldNumber, result.compute_time);
  Number(sink, OperationReply::kRepeatedReplyFieldNumber, answer.repeated ? 1 : 0);
  Number(sink, OperationReply::kDurableNumberFieldNumber, answer.durable_number);
  if (result.final_state.empty()) return;
  Part(sink, OperationReply::kFinalStateFieldNumber, [&](auto& part) {
    for (const OutputTensor& tensor : result.final_state) Tensor(part, v1::StateTensors::kTensorsFieldNumber, tensor);
  });
}

template <typename Sink>
void Reply(Sink& sink, std::string_view request_id, const InferReply& reply) {
  using v1::InferResponse;
  Text(sink, InferResponse::kRequestIdFieldNumber, request_id);
  for (const OutputTensor& output : reply.outputs) Tensor(sink, InferResponse::kOutputsFieldNumber, output);
  Text(sink, InferResponse::kEngineFieldNumber, reply.engine);
  Text(sink, InferResponse::kFingerprintFieldNumber, reply.model->fingerprint());
  Duration(sink, InferResponse::kQueueTimeFieldNumber, reply.queue_time);
  Duration(sink, InferResponse::kComputeTimeFieldNumber, reply.compute_time);
  Number(sink, InferResponse::kLargestBatchFieldNumber, static_cast<uint64_t>(reply.largest_batch));
  for (const std::string& warning : reply.model->stack().Warnings()) {
    Text(sink, InferResponse::kWarningsFieldNumber, warning);
  }
}

template <typename... Parts>
size_t SizeOf(const Parts&... parts) {
  ByteCounter counter;
  Reply(counter, parts...);
  return counter.size();
}

template <typename... Parts>
uint8_t* WriteTo(uint8_t* to, const Parts&... parts) {
  Writer writer(to);
  Reply(writer, parts...);
  return writer.end();
}

}  // namespace

OperationHead HeadOf(const v1::Operation& operation) {
  return {operation.request_id(), operation.session(),
          operation.has_number() ? std::optional<uint64_t>(operation.number()) : std::nullopt, operation.kind_case()};
}

size_t ReplySize(const OperationHead& head, const ApplyReply& answer) { return SizeOf(head, answer); }
uint8_t* WriteReply(const OperationHead& head, const ApplyReply& answer, uint8_t* to) {
  return WriteTo(to, head, answer);
}

size_t ReplySize(std::string_view request_id, const InferReply& reply) { return SizeOf(request_id, reply); }
uint8_t* WriteReply(std::string_view request_id, const InferReply& reply, uint8_t* to) {
  return WriteTo(to, request_id, reply);
}

}  // namespace rnnserve
