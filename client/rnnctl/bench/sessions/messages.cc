// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/sessions/messages.h"

#include <charconv>
#include <iterator>
#include <variant>

#include "client/cpp/codec.h"
#include "client/rnnctl/bench/sessions/wire_reader.h"
#include "rnnserve/v1/sessions.pb.h"

namespace rnnserve::rnnctl::bench {
namespace {

constexpr uint64_t kMaxDurationNumber = 1'000'000'000;  // keeps the sum in range whatever came

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void AppendBytes(int field, std::string_view bytes, std::string& to) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | 2, to);
  AppendVarint(bytes.size(), to);
  to += bytes;
}

size_t BytesSize(std::string_view bytes) { return 1 + VarintSize(bytes.size()) + bytes.size(); }

// A kind and a slot: c17.
std::optional<OperationId> ReadId(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  OperationId id{static_cast<OperationKind>(text[0]), 0};
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), id.slot);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

std::optional<std::chrono::nanoseconds> ReadDuration(std::string_view bytes) {
  WireReader in(bytes);
  std::chrono::nanoseconds duration{0};
  while (const uint32_t field = in.Next()) {
    if (in.number() > kMaxDurationNumber) return std::nullopt;
    const auto number = static_cast<int64_t>(in.number());
    if (field == 1) duration += std::chrono::seconds(number);
    if (field == 2) duration += std::chrono::nanoseconds(number);
  }
  if (in.failed()) return std::nullopt;
  return duration;
}

bool ReadStatus(std::string_view bytes, Answer& answer) {
  WireReader in(bytes);
  while (const uint32_t field = in.Next()) {
    if (field == v1::OperationStatus::kCodeFieldNumber) answer.code = static_cast<int>(in.number());
    if (field == v1::OperationStatus::kMessageFieldNumber) answer.message = in.bytes();
  }
  return !in.failed();
}

bool ReadReply(std::string_view bytes, OperationRead& read) {
  using Reply = v1::OperationReply;
  read.reply = bytes;
  std::optional<OperationId> id;
  WireReader in(bytes);
  bool is_good = true;
  const auto read_time = [&](std::chrono::nanoseconds& time) {
    const std::optional<std::chrono::nanoseconds> told = ReadDuration(in.bytes());
    is_good = is_good && told;
    time = told.value_or(time);
  };
  while (const uint32_t field = in.Next()) {
    switch (field) {
      case Reply::kRequestIdFieldNumber:
        id = ReadId(in.bytes());
        break;
      case Reply::kSessionFieldNumber:
        read.session = in.bytes();
        break;
      case Reply::kStatusFieldNumber:
        is_good = is_good && ReadStatus(in.bytes(), read.answer);
        break;
      case Reply::kQueueTimeFieldNumber:
        read_time(read.answer.queue);
        break;
      case Reply::kComputeTimeFieldNumber:
        read_time(read.answer.compute);
        read.answer.has_server_times = true;
        break;
      default:
        break;
    }
  }
  if (!id || !is_good || in.failed()) return false;
  read.id = *id;
  read.answer.slot = id->slot;
  read.answer.received_bytes = static_cast<int64_t>(bytes.size());
  return true;
}

}  // namespace

std::string ChunkBody(const std::vector<client::Tensor>& inputs) {
  v1::Operation operation;
  operation.mutable_chunk();
  for (const client::Tensor& tensor : inputs) client::Encode(tensor, *operation.mutable_chunk()->add_inputs());
  return operation.SerializeAsString();
}

std::string CloseBody() {
  v1::Operation operation;
  operation.mutable_close();
  return operation.SerializeAsString();
}

std::string OpenBody(const client::Target& target, int64_t rows, const client::InferOptions& options,
                     std::optional<int64_t> kept_replies, std::optional<int64_t> kept_bytes,
                     client::Durability durability) {
  v1::Operation operation;
  v1::OpenRequest& open = *operation.mutable_open();
  if (const auto* model = std::get_if<client::ModelRef>(&target)) client::Encode(*model, *open.mutable_model());
  if (const auto* known = std::get_if<client::Fingerprint>(&target)) open.set_fingerprint(known->hex);
  client::Encode(options.options, *open.mutable_options());
  for (const std::string& output : options.outputs) open.add_outputs(output);
  open.set_engine(options.engine);
  open.set_rows(rows);
  if (kept_replies) open.set_window_operations(static_cast<int32_t>(*kept_replies));
  if (kept_replies == 0) kept_bytes = 0;
  if (kept_bytes) open.set_window_bytes(*kept_bytes);
  open.set_durability(static_cast<v1::OpenRequest::Durability>(durability));
  open.set_max_in_flight(1);  // a chunk waits for the one before
  return operation.SerializeAsString();
}

void AppendOperation(OperationId id, std::string_view session, uint64_t number, std::string_view body,
                     std::string& message) {
  char text[24] = {static_cast<char>(id.kind)};
  const char* end = std::to_chars(text + 1, std::end(text), id.slot).ptr;
  const std::string_view request_id(text, static_cast<size_t>(end - text));
  size_t size = BytesSize(request_id) + body.size();
  if (!session.empty()) size += BytesSize(session);
  if (number > 0) size += 1 + VarintSize(number);
  AppendVarint(v1::StreamRequest::kOperationsFieldNumber << 3 | 2, message);
  AppendVarint(size, message);
  AppendBytes(v1::Operation::kRequestIdFieldNumber, request_id, message);
  if (!session.empty()) AppendBytes(v1::Operation::kSessionFieldNumber, session, message);
  if (number > 0) {
    AppendVarint(v1::Operation::kNumberFieldNumber << 3, message);
    AppendVarint(number, message);
  }
  message += body;
}

bool ReadReplies(std::string_view message, const std::function<void(const OperationRead&)>& take) {
  WireReader in(message);
  while (const uint32_t field = in.Next()) {
    if (field != v1::StreamResponse::kRepliesFieldNumber) continue;
    OperationRead read = {};
    if (!ReadReply(in.bytes(), read)) return false;
    take(read);
  }
  return !in.failed();
}

}  // namespace rnnserve::rnnctl::bench
