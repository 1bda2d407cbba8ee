// SPDX-License-Identifier: Apache-2.0
// The elements of a reply's tensor: row-major, little-endian, in a block of exactly their size. A std::string has one
// byte more, which takes a power of two (Y of 32 steps of H = 128 is 16 KiB) into the allocator's next class, a fourth
// above. The block that an engine fills is the one that a session keeps for repetitions.
#pragma once

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

namespace rnnserve {

class Elements {
 public:
  Elements() = default;
  // Zeros.
  explicit Elements(size_t size) : size_(size), block_(size == 0 ? nullptr : std::make_unique<char[]>(size)) {}
  explicit Elements(std::string_view bytes) : Elements(bytes.size()) { std::copy(bytes.begin(), bytes.end(), data()); }
  Elements(const Elements& other) : Elements(other.view()) {}
  Elements(Elements&& other) noexcept : size_(std::exchange(other.size_, 0)), block_(std::move(other.block_)) {}
  Elements& operator=(Elements other) noexcept {
    std::swap(size_, other.size_);
    block_.swap(other.block_);
    return *this;
  }

  char* data() { return block_.get(); }
  const char* data() const { return block_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  char* begin() { return data(); }
  char* end() { return data() + size_; }
  const char* begin() const { return data(); }
  const char* end() const { return data() + size_; }
  std::string_view view() const { return {block_.get(), size_}; }
  bool operator==(const Elements& other) const { return view() == other.view(); }
  void Wipe() { explicit_bzero(block_.get(), size_); }

 private:
  size_t size_ = 0;
  std::unique_ptr<char[]> block_;
};

}  // namespace rnnserve
