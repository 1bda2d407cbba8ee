// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/plain_chunks.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "server/api/native/session_codec.h"

namespace rnnserve {
namespace {

constexpr uint32_t kVarint = 0, kLengthDelimited = 2;
constexpr size_t kMaxRank = 8;
// Chunks that a message has room for once its first one is read: mostly all are of one size.
constexpr size_t kMostExpected = 64;

constexpr uint64_t TagOf(int field, uint32_t wire_type) { return static_cast<uint64_t>(field) << 3 | wire_type; }

// Reads what protobuf reads alike; anything unusual ends it.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }
  size_t size() const { return rest_.size(); }

  // A tenth byte would be for negative numbers.
  bool Varint(uint64_t& value, size_t most_bytes = 9) {
    if (rest_.empty()) return false;
    value = static_cast<uint8_t>(rest_.front());
    if (value >= 0x80) return LongVarint(value, most_bytes);
    rest_.remove_prefix(1);
    return true;
  }
  // Of a field up to 16.
  bool Tag(uint64_t& tag) { return Varint(tag, 2); }
  bool Bytes(std::string_view& bytes) {
    uint64_t size = 0;
    if (!Varint(size, 4) || size > rest_.size()) return false;
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  // Of ASCII, which is UTF-8 without a look at it.
  bool Text(std::string_view& text, size_t most) {
    if (!Bytes(text) || text.size() > most) return false;
    signed char all = 0;  // of many letters at once, which a search for the first other one is not
    for (const char c : text) all = static_cast<signed char>(all | c);
    return all >= 0;
  }

 private:
  bool LongVarint(uint64_t& value, size_t most_bytes) {
    value = 0;
    for (size_t k = 0; k < std::min(rest_.size(), most_bytes); ++k) {
      const auto byte = static_cast<uint8_t>(rest_[k]);
      value |= uint64_t{byte & 0x7Fu} << 7 * k;
      if (byte >= 0x80) continue;
      rest_.remove_prefix(k + 1);
      return true;
    }
    return false;
  }

  std::string_view rest_;
};

bool ReadShape(std::string_view packed, Shape& shape) {
  Reader reader(packed);
  while (!reader.at_end()) {
    uint64_t axis = 0;
    if (shape.size() == kMaxRank || !reader.Varint(axis)) return false;
    shape.push_back(static_cast<int64_t>(axis));
  }
  return true;
}

// Each field once at most: of fields that come again the last one counts, or they add up.
class Once {
 public:
  bool operator()(uint64_t tag) {
    const uint64_t bit = uint64_t{1} << (tag >> 3 & 63);
    return (std::exchange(seen_, seen_ | bit) & bit) == 0;
  }

 private:
  uint64_t seen_ = 0;
};

bool ReadTensor(std::string_view bytes, PlainChunk& chunk) {
  using v1::Tensor;
  Reader reader(bytes);
  Once once;
  std::string_view packed, raw;
  uint64_t tag = 0, type = 0;
  while (!reader.at_end()) {
    bool read = reader.Tag(tag) && once(tag);
    switch (tag) {
      case TagOf(Tensor::kNameFieldNumber, kLengthDelimited):
        read = read && reader.Text(chunk.input, kMaxOperationText);
        break;
      case TagOf(Tensor::kDataTypeFieldNumber, kVarint):
        read = read && reader.Varint(type) && type < 128;
        break;
      case TagOf(Tensor::kShapeFieldNumber, kLengthDelimited):
        read = read && reader.Bytes(packed);
        break;
      case TagOf(Tensor::kRawFieldNumber, kLengthDelimited):
        read = read && reader.Bytes(raw);
        break;
      default:
        return false;
    }
    if (!read) return false;
  }
  TensorView& tensor = chunk.tensor;
  tensor.type = static_cast<DataType>(type);
  tensor.data = std::as_bytes(std::span(raw));
  return !chunk.input.empty() && !raw.empty() && ByteSize(tensor.type) > 0 && ReadShape(packed, tensor.shape) &&
         NumBytes(tensor.type, tensor.shape) == static_cast<int64_t>(raw.size());
}

// A Chunk with one input and nothing else.
bool ReadChunk(std::string_view bytes, PlainChunk& chunk) {
  Reader reader(bytes);
  uint64_t tag = 0;
  std::string_view tensor;
  return reader.Tag(tag) && tag == TagOf(v1::Chunk::kInputsFieldNumber, kLengthDelimited) && reader.Bytes(tensor) &&
         reader.at_end() && ReadTensor(tensor, chunk);
}

bool ReadOperation(std::string_view bytes, PlainChunk& chunk) {
  using v1::Operation;
  Reader reader(bytes);
  Once once;
  bool has_chunk = false;
  uint64_t tag = 0, number = 0;
  std::string_view part;
  while (!reader.at_end()) {
    bool read = reader.Tag(tag) && once(tag);
    switch (tag) {
      case TagOf(Operation::kRequestIdFieldNumber, kLengthDelimited):
        read = read && reader.Text(chunk.request_id, kMaxOperationText);
        break;
      case TagOf(Operation::kSessionFieldNumber, kLengthDelimited):
        read = read && reader.Text(chunk.session, bytes.size());
        break;
      case TagOf(Operation::kNumberFieldNumber, kVarint):
        read = read && reader.Varint(number);
        chunk.number = number;
        break;
      case TagOf(Operation::kOwnerEpochFieldNumber, kVarint):
        read = read && reader.Varint(number);
        chunk.owner_epoch = number;
        break;
      case TagOf(Operation::kPriorityFieldNumber, kVarint):
        read = read && reader.Varint(number) && number <= static_cast<uint64_t>(kMaxOperationPriority);
        chunk.priority = static_cast<int32_t>(number);
        break;
      case TagOf(Operation::kChunkFieldNumber, kLengthDelimited):
        read = read && reader.Bytes(part) && ReadChunk(part, chunk);
        has_chunk = true;
        break;
      default:
        return false;
    }
    if (!read) return false;
  }
  return has_chunk;
}

}  // namespace

bool ReadPlainChunks(std::string_view bytes, PlainChunks& chunks) {
  Reader reader(bytes);
  while (!reader.at_end()) {
    uint64_t tag = 0;
    std::string_view operation;
    const bool read = reader.Tag(tag) && tag == TagOf(v1::StreamRequest::kOperationsFieldNumber, kLengthDelimited) &&
                      reader.Bytes(operation);
    if (!read || !ReadOperation(operation, chunks.emplace_back())) return false;
    if (chunks.size() == 1) chunks.reserve(1 + std::min(reader.size() / operation.size(), kMostExpected));
  }
  return true;
}

OperationCall CallOf(const PlainChunk& chunk, const OperationSender& sender) {
  OperationCall call{sender};
  call.session = chunk.session;
  call.number = chunk.number;
  call.owner_epoch = chunk.owner_epoch;
  call.priority = chunk.priority;
  call.kind.emplace<ChunkOp>().inputs.push_back({std::string(chunk.input), chunk.tensor});
  return call;
}

OperationHead HeadOf(const PlainChunk& chunk) {
  return {chunk.request_id, chunk.session, chunk.number, v1::Operation::kChunk};
}

}  // namespace rnnserve
