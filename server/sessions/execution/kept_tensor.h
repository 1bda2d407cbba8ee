// SPDX-License-Identifier: Apache-2.0
// A tensor of a reply that is kept for repetitions. Its elements lie in a block of exactly their size: a std::string
// has one byte more, which takes a power of two (Y of 32 steps of H = 128 is 16 KiB) into the allocator's next class, a
// fourth above.
#pragma once

#include <string.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/core/call.h"
#include "server/sessions/contract/allocated_bytes.h"

namespace rnnserve {

class KeptTensor {
 public:
  // What it takes of a window, for so many bytes of elements.
  static int64_t Charge(int64_t bytes) { return AllocatedBytes(bytes); }

  explicit KeptTensor(OutputTensor tensor)
      : name(std::move(tensor.name)),
        type(tensor.type),
        shape(std::move(tensor.shape)),
        size_(tensor.bytes.size()),
        elements_(std::make_unique_for_overwrite<char[]>(size_)) {
    std::copy_n(tensor.bytes.data(), size_, elements_.get());
  }

  std::string name;
  DataType type;
  Shape shape;
  std::string_view bytes() const { return {elements_.get(), size_}; }  // row-major, little-endian
  void Wipe() { explicit_bzero(elements_.get(), size_); }

 private:
  size_t size_;
  std::unique_ptr<char[]> elements_;
};

}  // namespace rnnserve
