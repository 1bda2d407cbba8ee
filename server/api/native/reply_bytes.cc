// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/reply_bytes.h"

#include <algorithm>

#include "server/api/native/wire_writer.h"

namespace rnnserve {
namespace {

// As ReplySize and WriteReply; both outlive what it returns.
auto Fill(const OperationHead& head, const ApplyReply& answer) {
  return [&](auto& sink) {
    using v1::OperationReply;
    const OperationResult& result = *answer.result;
    wire::Text(sink, OperationReply::kRequestIdFieldNumber, head.request_id);
    wire::Text(sink, OperationReply::kSessionFieldNumber, head.session);
    if (head.number || answer.number != 0) {
      wire::Number(sink, OperationReply::kNumberFieldNumber, answer.number != 0 ? answer.number : *head.number,
                   /*is_present=*/true);
    }
    wire::Part(sink, OperationReply::kStatusFieldNumber, [](auto&) {});
    wire::Number(sink, OperationReply::kLastAppliedFieldNumber, answer.numbers.last_applied);
    wire::Number(sink, OperationReply::kNextExpectedFieldNumber, answer.numbers.next_expected());
    wire::Number(sink, OperationReply::kPositionFieldNumber, answer.numbers.position);
    for (const OutputTensor& output : result.outputs) wire::Tensor(sink, OperationReply::kOutputsFieldNumber, output);
    wire::Text(sink, OperationReply::kEngineFieldNumber, result.engine);
    wire::Duration(sink, OperationReply::kQueueTimeFieldNumber, result.queue_time);
    wire::Duration(sink, OperationReply::kComputeTimeFieldNumber, result.compute_time);
    wire::Number(sink, OperationReply::kRepeatedReplyFieldNumber, answer.repeated ? 1 : 0);
    if (!result.final_state.empty()) {
      wire::Part(sink, OperationReply::kFinalStateFieldNumber, [&](auto& part) {
        for (const OutputTensor& tensor : result.final_state) {
          wire::Tensor(part, v1::StateTensors::kTensorsFieldNumber, tensor);
        }
      });
    }
    wire::Number(sink, OperationReply::kDurableNumberFieldNumber, answer.durable_number);
  };
}

// No less than its size: counted without a look at each number.
size_t MostReplySize(const OperationHead& head, const ApplyReply& answer) {
  constexpr size_t kNumbers = 256, kTensor = 64, kAxis = 10;
  const OperationResult& result = *answer.result;
  size_t size = kNumbers + head.request_id.size() + head.session.size() + result.engine.size();
  const auto add = [&size](const OutputTensor& tensor) {
    size += kTensor + kAxis * tensor.shape.size() + tensor.name.size() + tensor.bytes.size();
  };
  std::ranges::for_each(result.outputs, add);
  std::ranges::for_each(result.final_state, add);
  return size;
}

}  // namespace

OperationHead HeadOf(const v1::Operation& operation) {
  return {operation.request_id(), operation.session(),
          operation.has_number() ? std::optional<uint64_t>(operation.number()) : std::nullopt, operation.kind_case()};
}

size_t ReplySize(const OperationHead& head, const ApplyReply& answer) { return wire::SizeOf(Fill(head, answer)); }
uint8_t* WriteReply(const OperationHead& head, const ApplyReply& answer, uint8_t* to) {
  return wire::Write(Fill(head, answer), to);
}

std::span<const uint8_t> WritePart(const OperationHead& head, const ApplyReply& answer, std::span<uint8_t> room) {
  // The part's own size comes before what it is the size of, so there is room for the longest one.
  constexpr size_t kMostHead = 1 + 10;
  if (MostReplySize(head, answer) + kMostHead > room.size()) return {};
  uint8_t* const reply = room.data() + kMostHead;
  const uint8_t* const end = WriteReply(head, answer, reply);
  const auto size = static_cast<size_t>(end - reply);
  uint8_t* const begin = reply - (PartSize(size) - size);
  BeginPart(size, begin);
  return {begin, end};
}

size_t PartSize(size_t reply_size) { return 1 + wire::CodedOutputStream::VarintSize64(reply_size) + reply_size; }
uint8_t* BeginPart(size_t reply_size, uint8_t* to) {
  *to++ = 1 << 3 | wire::kLengthDelimited;
  return wire::CodedOutputStream::WriteVarint64ToArray(reply_size, to);
}

}  // namespace rnnserve
