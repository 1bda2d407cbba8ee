// SPDX-License-Identifier: Apache-2.0
// A reply that is written straight to its bytes, against the message that protobuf writes.
#include "server/api/native/reply_bytes.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "server/api/native/session_codec.h"

namespace rnnserve {
namespace {

class Chance {
 public:
  explicit Chance(uint32_t seed) : random_(seed) {}
  bool Half() { return random_() % 2 == 0; }
  // Small ones and large ones alike.
  uint64_t Number() { return (uint64_t{random_()} << 32 | random_()) >> random_() % 64; }
  std::string Text() { return std::string(random_() % 300, static_cast<char>('a' + random_() % 26)); }
  absl::Duration Duration() { return absl::Nanoseconds(static_cast<int64_t>(Number() >> 2)); }
  OutputTensor Tensor() {
    OutputTensor tensor = {
        Text(), Half() ? DataType::kFloat : DataType::kBFloat16, {}, Elements(std::string_view(Text()))};
    for (auto axes = random_() % 5; axes > 0; --axes) tensor.shape.push_back(static_cast<int64_t>(Number() >> 1));
    return tensor;
  }

 private:
  std::mt19937 random_;
};

std::string AsMessage(const v1::Operation& operation, const ApplyReply& answer) {
  v1::OperationReply reply;
  reply.set_request_id(operation.request_id());
  reply.set_session(operation.session());
  if (operation.has_number()) reply.set_number(operation.number());
  EncodeNumbers(answer.numbers, reply);
  if (answer.number != 0) reply.set_number(answer.number);
  reply.mutable_status();
  reply.set_repeated_reply(answer.repeated);
  reply.set_durable_number(answer.durable_number);
  for (const OutputTensor& output : answer.result->outputs) EncodeTensor(output, *reply.add_outputs());
  reply.set_engine(answer.result->engine);
  EncodeDuration(answer.result->queue_time, *reply.mutable_queue_time());
  EncodeDuration(answer.result->compute_time, *reply.mutable_compute_time());
  for (const OutputTensor& tensor : answer.result->final_state) {
    EncodeTensor(tensor, *reply.mutable_final_state()->add_tensors());
  }
  return reply.SerializeAsString();
}

std::string AsBytes(const v1::Operation& operation, const ApplyReply& answer) {
  const OperationHead head = HeadOf(operation);
  std::string bytes(ReplySize(head, answer), '\0');
  auto* const begin = reinterpret_cast<uint8_t*>(bytes.data());
  EXPECT_EQ(WriteReply(head, answer, begin), begin + bytes.size());
  return bytes;
}

// The least room that is enough, so that a sanitizer sees each byte beyond it.
std::string AsPart(const v1::Operation& operation, const ApplyReply& answer) {
  const OperationHead head = HeadOf(operation);
  for (size_t size = 0;; ++size) {
    std::vector<uint8_t> room(size);
    const std::span<const uint8_t> part = WritePart(head, answer, room);
    if (!part.empty()) return {part.begin(), part.end()};
  }
}

void ExpectMessage(const v1::Operation& operation, const ApplyReply& answer, uint32_t which) {
  const std::string message = AsMessage(operation, answer);
  EXPECT_EQ(AsBytes(operation, answer), message) << which;
  v1::StreamResponse response;
  ASSERT_TRUE(response.add_replies()->ParseFromString(message));
  EXPECT_EQ(AsPart(operation, answer), response.SerializeAsString()) << which;
}

TEST(AnswerBytesTest, AreThoseOfTheMessage) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    Chance chance(seed);
    v1::Operation operation;
    operation.set_session(chance.Text());
    operation.set_request_id(chance.Text());
    if (chance.Half()) operation.set_number(chance.Half() ? 0 : chance.Number());
    auto result = std::make_shared<OperationResult>();
    while (chance.Half()) result->outputs.push_back(chance.Tensor());
    while (chance.Half()) result->final_state.push_back(chance.Tensor());
    result->engine = chance.Text();
    result->queue_time = chance.Duration();
    result->compute_time = chance.Duration();
    ApplyReply answer;
    answer.has_numbers = true;
    answer.numbers = {chance.Number(), chance.Number()};
    answer.number = chance.Half() ? 0 : chance.Number();
    answer.result = std::move(result);
    answer.repeated = chance.Half();
    ExpectMessage(operation, answer, seed);
  }
}

// Nothing that a number or a duration may be takes more than the room that is counted for it.
TEST(AnswerBytesTest, FitTheirRoomWhereAllNumbersAreTheLargest) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  for (const size_t tensors : {0, 1, 3, 40}) {
    v1::Operation operation;
    operation.set_number(kMost);
    auto result = std::make_shared<OperationResult>();
    const OutputTensor tensor = {"", DataType::kBFloat16, Shape(8, -1), Elements()};
    result->outputs.assign(tensors, tensor);
    result->final_state.assign(tensors, tensor);
    result->queue_time = result->compute_time = absl::Nanoseconds(std::numeric_limits<int64_t>::min());
    ApplyReply answer;
    answer.has_numbers = true;
    answer.numbers = {kMost - 1, kMost};
    answer.number = kMost;
    answer.durable_number = kMost;
    answer.repeated = true;
    answer.result = std::move(result);
    ExpectMessage(operation, answer, static_cast<uint32_t>(tensors));
  }
}

}  // namespace
}  // namespace rnnserve
