// SPDX-License-Identifier: Apache-2.0
// Walks through the fields of a serialised message without making an object of it: a reply costs the load generator a
// fraction of a microsecond, which it takes from the machine that is measured.
//
//   WireReader in(bytes);
//   while (const uint32_t field = in.Next()) {
//     if (field == v1::OperationReply::kSessionFieldNumber) session = in.Bytes();
//     ...
//   }
//   if (in.failed()) ...
#pragma once

#include <cstdint>
#include <string_view>

namespace rnnserve::rnnctl::bench {

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // The next field's number, whose value has been read; 0 at the end.
  uint32_t Next() {
    if (at_ == end_ || failed_) return 0;
    const uint64_t tag = ReadVarint();
    number_ = 0;
    bytes_ = {};
    switch (tag & 7) {
      case 0:
        number_ = ReadVarint();
        break;
      case 1:
        Take(8);
        break;
      case 2:
        Take(ReadVarint());
        break;
      case 5:
        Take(4);
        break;
      default:
        failed_ = true;
    }
    if (tag >> 3 == 0 || tag >> 3 > kMaxField) failed_ = true;
    return failed_ ? 0 : static_cast<uint32_t>(tag >> 3);
  }

  // Of that field.
  uint64_t number() const { return number_; }
  std::string_view bytes() const { return bytes_; }
  bool failed() const { return failed_; }

 private:
  static constexpr uint64_t kMaxField = (1 << 29) - 1;

  uint64_t ReadVarint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const auto byte = static_cast<uint8_t>(*at_++);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    failed_ = true;
    return 0;
  }
  void Take(uint64_t size) {
    if (failed_ || size > static_cast<uint64_t>(end_ - at_)) {
      failed_ = true;
      return;
    }
    bytes_ = {at_, static_cast<size_t>(size)};
    at_ += size;
  }

  const char* at_;
  const char* const end_;
  uint64_t number_ = 0;
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace rnnserve::rnnctl::bench
