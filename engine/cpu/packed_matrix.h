// SPDX-License-Identifier: Apache-2.0
// Weights of a product, laid out for product.cc. Immutable.
//
// The source holds blocks of H output units, one row of K weights per unit, as ONNX does. Here every block is padded
// with zero units to whole cache lines, and the columns (padded units of all blocks, one after the other) are cut into
// panels of 256 bytes that are contiguous over k:
//
//   panel 0: [k = 0: 64 floats] [k = 1: 64 floats] ... [k = K-1]
//   panel 1: ...
//   last panel: as many lines as are left (1 to 4)
#pragma once

#include <cstddef>

#include "engine/cpu/aligned_buffer.h"

namespace rnnserve::cpu {

template <typename T>
constexpr size_t kPanel = 4 * kLine<T>;

template <typename T>
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // `source`: [blocks * units, depth], row-major. `depth` may be 0.
  PackedMatrix(const T* source, size_t blocks, size_t units, size_t depth);

  size_t depth() const { return depth_; }
  // Padded units of all blocks: blocks * PadToLine(units).
  size_t columns() const { return columns_; }
  // The panel that begins at this column, a multiple of kPanel.
  const T* panel(size_t column) const { return data_.data() + column * depth_; }
  size_t bytes() const { return data_.size() * sizeof(T); }

 private:
  size_t depth_ = 0;
  size_t columns_ = 0;
  AlignedBuffer<T> data_;
};

template <typename T>
size_t PanelCount(const PackedMatrix<T>& matrix) {
  return (matrix.columns() + kPanel<T> - 1) / kPanel<T>;
}

// A vector of `blocks` times `units` values, each block padded with zeros to whole lines: biases and peepholes.
template <typename T>
AlignedBuffer<T> PadBlocks(const T* source, size_t blocks, size_t units);

}  // namespace rnnserve::cpu
