// SPDX-License-Identifier: Apache-2.0
// Scratch memory on cache-line boundaries that only ever grows. Its content is undefined after every Grow.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace rnnserve::cpu {

constexpr size_t kLineBytes = 64;

// Elements of T in a cache line: every block of units is padded to a multiple of it, so that kernels have no tails.
template <typename T>
constexpr size_t kLine = kLineBytes / sizeof(T);

template <typename T>
constexpr size_t PadToLine(size_t count) {
  return (count + kLine<T> - 1) / kLine<T> * kLine<T>;
}

// Distance between rows of `count` elements. The extra line keeps rows of a power of two out of each other's cache
// sets.
template <typename T>
constexpr size_t RowStride(size_t count) {
  return PadToLine<T>(count) + kLine<T>;
}

template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size) { Grow(size); }

  void Grow(size_t size) {
    if (size <= size_) return;
    data_.reset();
    size_ = 0;
    data_.reset(static_cast<T*>(::operator new (size * sizeof(T), std::align_val_t{kLineBytes})));
    size_ = size;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t k) { return data_.get()[k]; }
  const T& operator[](size_t k) const { return data_.get()[k]; }

 private:
  struct Free {
    void operator()(T* data) const { ::operator delete (data, std::align_val_t{kLineBytes}); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace rnnserve::cpu
