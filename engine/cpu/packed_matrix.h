// SPDX-License-Identifier: Apache-2.0
// Weights of a product, laid out for product.cc. Immutable.
//
// The source holds blocks (gates) of H output units, one row of K weights per unit, as ONNX does. Here 16 units of a
// block (a cache line of float32) are a line of columns, contiguous over k, and the lines of all blocks for the same
// units stand together, so that a cell's functions follow the product while its sums are still in the nearest cache:
//
//   line 0: block 0, units 0..15      [k = 0: 16 floats] [k = 1: 16 floats] ... [k = K-1]
//   line 1: block 1, units 0..15
//   ...
//   line B: block 0, units 16..31     of B blocks; the last units are padded with zeros to a whole line
#pragma once

#include <cstddef>

#include "engine/cpu/aligned_buffer.h"

namespace rnnserve::cpu {

template <typename T>
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // `source`: [blocks * units, depth], row-major. `depth` may be 0.
  PackedMatrix(const T* source, size_t blocks, size_t units, size_t depth);

  size_t depth() const { return depth_; }
  // blocks * PadToLine(units) / kLine.
  size_t lines() const { return lines_; }
  // Columns with padding: kLine of each line.
  size_t columns() const { return lines_ * kLine<T>; }
  const T* line(size_t index) const { return data_.data() + index * line_stride(); }
  size_t line_stride() const { return depth_ * kLine<T>; }
  size_t bytes() const { return data_.size() * sizeof(T); }

 private:
  size_t depth_ = 0;
  size_t lines_ = 0;
  AlignedBuffer<T> data_;
};

// A vector of `blocks` times `units` values in the order of the columns: biases.
template <typename T>
AlignedBuffer<T> PackVector(const T* source, size_t blocks, size_t units);

// The same block after block, each padded with zeros to whole lines: peepholes.
template <typename T>
AlignedBuffer<T> PadBlocks(const T* source, size_t blocks, size_t units);

}  // namespace rnnserve::cpu
