// SPDX-License-Identifier: Apache-2.0
// The elements of a reply's tensor: row-major, little-endian, in a block of exactly their size. A std::string has one
// byte more, which takes a power of two (Y of 32 steps of H = 128 is 16 KiB) into the allocator's next class, a fourth
// above. The block that an engine fills is the one that a session keeps for repetitions.
#pragma once

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/recycled.h"

namespace rnnserve {

class Elements {
 public:
  Elements() = default;
  // Zeros.
  explicit Elements(size_t size) : size_(size) {
    if (size > 0) block_ = static_cast<char*>(std::memset(TakeRecycled(size), 0, size));
  }
  // Whatever lies there.
  static Elements ToFill(size_t size) {
    Elements elements;
    if (size > 0) elements.block_ = static_cast<char*>(TakeRecycled(size));
    elements.size_ = size;
    return elements;
  }
  explicit Elements(std::string_view bytes) : Elements(bytes.size()) { std::copy(bytes.begin(), bytes.end(), data()); }
  Elements(const Elements& other) : Elements(other.view()) {}
  Elements(Elements&& other) noexcept
      : size_(std::exchange(other.size_, 0)), block_(std::exchange(other.block_, nullptr)) {}
  ~Elements() {
    if (block_ != nullptr) GiveRecycled(block_, size_);
  }
  Elements& operator=(Elements other) noexcept {
    std::swap(size_, other.size_);
    std::swap(block_, other.block_);
    return *this;
  }

  char* data() { return block_; }
  const char* data() const { return block_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  char* begin() { return data(); }
  char* end() { return data() + size_; }
  const char* begin() const { return data(); }
  const char* end() const { return data() + size_; }
  std::string_view view() const { return {block_, size_}; }
  bool operator==(const Elements& other) const { return view() == other.view(); }
  void Wipe() {
    if (size_ > 0) explicit_bzero(block_, size_);
  }

 private:
  size_t size_ = 0;
  char* block_ = nullptr;
};

}  // namespace rnnserve
