// SPDX-License-Identifier: Apache-2.0
// Copies between the callers' rows and pinned memory, cut into shares of about equal bytes that threads can take.
//
//   RowCopies copies;
//   copies.Add(StageIn(...));  // one for each slice
//   pool.Run(copies);          // copy_pool.h
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace rnnserve::cuda {

// Strides in bytes, any sign.
struct RowCopy {
  const std::byte* source;
  std::ptrdiff_t source_stride;
  std::byte* target;
  std::ptrdiff_t target_stride;
  size_t row_bytes;
  int64_t rows;
};

inline void CopyRows(const RowCopy& copy) {
  const auto adjacent = static_cast<std::ptrdiff_t>(copy.row_bytes);
  if (copy.source_stride == adjacent && copy.target_stride == adjacent) {
    std::memcpy(copy.target, copy.source, copy.row_bytes * static_cast<size_t>(copy.rows));
    return;
  }
  for (int64_t row = 0; row < copy.rows; ++row) {
    std::memcpy(copy.target + row * copy.target_stride, copy.source + row * copy.source_stride, copy.row_bytes);
  }
}

class RowCopies {
 public:
  // A thread copies this in about 5 us: long next to taking a share, short next to waiting for the last one.
  static constexpr size_t kShareBytes = size_t{64} << 10;

  // Rows stay whole: a share exceeds kShareBytes by less than one row.
  void Add(RowCopy copy) {
    if (copy.row_bytes == 0) return;
    while (copy.rows > 0) {
      if (room_ == 0) {
        first_.push_back(copies_.size());
        room_ = kShareBytes;
      }
      RowCopy part = copy;
      part.rows = std::min(copy.rows, static_cast<int64_t>((room_ + copy.row_bytes - 1) / copy.row_bytes));
      copies_.push_back(part);
      const size_t bytes = copy.row_bytes * static_cast<size_t>(part.rows);
      bytes_ += bytes;
      room_ -= std::min(room_, bytes);
      copy.source += part.rows * copy.source_stride;
      copy.target += part.rows * copy.target_stride;
      copy.rows -= part.rows;
    }
  }
  void Clear() {
    copies_.clear();
    first_.clear();
    bytes_ = room_ = 0;
  }

  size_t bytes() const { return bytes_; }
  size_t shares() const { return first_.size(); }
  void CopyShare(size_t share) const {
    const size_t end = share + 1 < first_.size() ? first_[share + 1] : copies_.size();
    for (size_t k = first_[share]; k < end; ++k) CopyRows(copies_[k]);
  }

 private:
  std::vector<RowCopy> copies_;
  std::vector<size_t> first_;  // of each share, in copies_
  size_t bytes_ = 0;
  size_t room_ = 0;  // bytes that the last share still takes
};

}  // namespace rnnserve::cuda
