// SPDX-License-Identifier: Apache-2.0
// Messages straight to their bytes on the wire, as protobuf would write them: without a message object, and with one
// copy of the outputs. A `fill` writes each field in order, once to a Counter and once to a Writer:
//
//   const auto fill = [&](auto& sink) { wire::Text(sink, 1, name); };
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

// Counts what a Writer would write.
class Counter {
 public:
  void Varint(uint64_t value) { size_ += CodedOutputStream::VarintSize64(value); }
  void Bytes(std::string_view bytes) { size_ += bytes.size(); }
  template <typename Fill>
  void Sized(size_t size, Fill) {
    size_ += size;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

class Writer {
 public:
  explicit Writer(uint8_t* to) : to_(to) {}
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) *to_++ = static_cast<uint8_t>(value | 0x80);
    *to_++ = static_cast<uint8_t>(value);
  }
  void Bytes(std::string_view bytes) {
    std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }
  // What `fill` writes, `size` bytes.
  template <typename Fill>
  void Sized(size_t, Fill fill) {
    fill(*this);
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

template <typename Fill>
size_t SizeOf(Fill fill) {
  Counter counter;
  fill(counter);
  return counter.size();
}

template <typename Sink, typename Fill>
void Part(Sink& sink, uint32_t field, Fill fill) {
  const size_t size = SizeOf(fill);
  sink.Varint(field << 3 | kLengthDelimited);
  sink.Varint(size);
  sink.Sized(size, fill);
}

template <typename Sink>
void Duration(Sink& sink, uint32_t field, absl::Duration duration) {
  const int64_t all = absl::ToInt64Nanoseconds(duration);
  const auto seconds = static_cast<uint64_t>(all / 1'000'000'000), nanos = static_cast<uint64_t>(all % 1'000'000'000);
  using google::protobuf::Duration;
  Part(sink, field, [&](auto& part) {
    Number(part, Duration::kSecondsFieldNumber, seconds);
    Number(part, Duration::kNanosFieldNumber, nanos);
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

template <typename Fill>
uint8_t* Write(Fill fill, uint8_t* to) {
  Writer writer(to);
  fill(writer);
  return writer.end();
}

}  // namespace rnnserve::wire
