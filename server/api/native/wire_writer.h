// SPDX-License-Identifier: Apache-2.0
// Messages straight to their bytes on the wire, as protobuf would write them: without a message object, and with one
// copy of the outputs. A `fill` writes each field in order, once to a sink that counts and once to one that writes:
//
//   const auto fill = [&](wire::Sink& sink) { wire::Text(sink, 1, name); };
//   uint8_t* end = wire::Write(fill, memory);      // of wire::SizeOf(fill) bytes
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>

#include <cstring>
#include <string_view>

#include "absl/time/time.h"
#include "rnnserve/v1/tensor.pb.h"
#include "server/core/call.h"

namespace rnnserve::wire {

using google::protobuf::io::CodedOutputStream;

enum WireType : uint32_t { kVarint = 0, kLengthDelimited = 2 };

// Writes or, without memory, counts what it would write.
class Sink {
 public:
  explicit Sink(uint8_t* to = nullptr) : to_(to) {}
  void Varint(uint64_t value) {
    if (to_ == nullptr) {
      size_ += CodedOutputStream::VarintSize64(value);
    } else {
      to_ = CodedOutputStream::WriteVarint64ToArray(value, to_);
    }
  }
  void Bytes(std::string_view bytes) {
    size_ += bytes.size();
    if (to_ == nullptr) return;
    std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }
  size_t size() const { return size_; }  // of what it counted
  uint8_t* end() const { return to_; }   // of what it wrote

 private:
  uint8_t* to_;
  size_t size_ = 0;
};

// Fields of proto3: what is zero is left out, unless a field has presence.
inline void Number(Sink& sink, uint32_t field, uint64_t value, bool is_present = false) {
  if (value == 0 && !is_present) return;
  sink.Varint(field << 3 | kVarint);
  sink.Varint(value);
}

inline void Text(Sink& sink, uint32_t field, std::string_view text) {
  if (text.empty()) return;
  sink.Varint(field << 3 | kLengthDelimited);
  sink.Varint(text.size());
  sink.Bytes(text);
}

template <typename Fill>
size_t SizeOf(Fill fill) {
  Sink counter;
  fill(counter);
  return counter.size();
}

template <typename Fill>
void Part(Sink& sink, uint32_t field, Fill fill) {
  sink.Varint(field << 3 | kLengthDelimited);
  sink.Varint(SizeOf(fill));
  fill(sink);
}

inline void Duration(Sink& sink, uint32_t field, absl::Duration duration) {
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  using google::protobuf::Duration;
  Part(sink, field, [&](Sink& part) {
    Number(part, Duration::kSecondsFieldNumber, static_cast<uint64_t>(nanos / 1'000'000'000));
    Number(part, Duration::kNanosFieldNumber, static_cast<uint64_t>(nanos % 1'000'000'000));
  });
}

inline void Tensor(Sink& sink, uint32_t field, const OutputTensor& tensor) {
  using v1::Tensor;
  Part(sink, field, [&](Sink& part) {
    Text(part, Tensor::kNameFieldNumber, tensor.name);
    Number(part, Tensor::kDataTypeFieldNumber, static_cast<uint64_t>(tensor.type));
    if (!tensor.shape.empty()) {
      Part(part, Tensor::kShapeFieldNumber, [&](Sink& shape) {
        for (const int64_t axis : tensor.shape) shape.Varint(static_cast<uint64_t>(axis));
      });
    }
    Text(part, Tensor::kRawFieldNumber, tensor.bytes.view());
  });
}

template <typename Fill>
uint8_t* Write(Fill fill, uint8_t* to) {
  Sink writer(to);
  fill(writer);
  return writer.end();
}

}  // namespace rnnserve::wire
