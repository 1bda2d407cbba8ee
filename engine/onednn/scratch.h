// SPDX-License-Identifier: Apache-2.0
// Bytes on cache-line boundaries that only ever grow. Their content is zero at first and undefined after a Grow.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace rnnserve::onednn {

class Scratch {
 public:
  void Grow(size_t bytes) {
    if (bytes <= bytes_) return;
    data_.reset();
    bytes_ = 0;
    data_.reset(static_cast<std::byte*>(::operator new(bytes, kLine)));
    std::memset(data_.get(), 0, bytes);  // padding rows are computed with whatever stands here: never with traps
    bytes_ = bytes;
  }
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, kLine); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

}  // namespace rnnserve::onednn
