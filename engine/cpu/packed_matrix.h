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
//
// A core reads small matrices for one row from its own cache. Where it reads one stream faster than several
// (GroupHere), lines that are taken together lie together, a group of them term by term:
//
//   lines 0..3: [k = 0: 4 * 16 floats] [k = 1] ... [k = K-1]
//
// Narrow weights (of float32) lie the same, 16 elements for each k; some together in a 32-bit word of each unit:
//
//   bfloat16: k, k + 1                  one is a shift away from float32, the other a mask
//   int8:     k, k + 2, k + 1, k + 3    two shifts make pairs of 16-bit numbers of k, k + 1 and of k + 2, k + 3;
//                                       plus 128 where dot_product.h multiplies them
//
// Where the CPU has tiles (tile_product.h), lines of bfloat16 end with zeros that fill the last one, and float32 may
// have its three parts besides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu/aligned_buffer.h"
#include "engine/weight_type.h"

namespace rnnserve::cpu {

// What weights of float32 are kept as.
struct WeightForm {
  constexpr WeightForm(WeightType kept_as, bool varies = false) : type(kept_as), may_vary(varies) {}
  // Whether they have parts for tiles.
  constexpr bool has_parts() const { return may_vary && type == WeightType::kAsGiven; }

  WeightType type;
  // Whether the last bits of a product may depend on how many rows it has, and on whether tiles were faster of late.
  bool may_vary;
};

// How many of such `lines` make a group on this CPU: all, or 1.
size_t GroupHere(size_t lines);

template <typename T>
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // `source`: [blocks * units, depth], row-major. `depth` may be 0. Only float32 can be kept in another `form`.
  // `together`: lines of a group, where these are whole groups.
  PackedMatrix(const T* source, size_t blocks, size_t units, size_t depth, WeightForm form = WeightType::kAsGiven,
               size_t together = 1);

  WeightForm form() const { return form_; }
  WeightType type() const { return form_.type; }
  size_t depth() const { return depth_; }
  // blocks * PadToLine(units) / kLine.
  size_t lines() const { return lines_; }
  // Columns with padding: kLine of each line.
  size_t columns() const { return lines_ * kLine<T>; }
  // Stored: what the weights are kept as.
  template <typename Stored = T>
  const Stored* line(size_t index) const {
    return reinterpret_cast<const Stored*>(data_.data()) + offset(index);
  }
  // In elements: between lines of a group, or all lines where there are none, and between terms of a line.
  size_t line_stride() const { return together_ == 1 ? line_size() : kLine<T>; }
  size_t term_stride() const { return together_ * kLine<T>; }
  size_t line_size() const { return line_size_; }
  size_t together() const { return together_; }
  // Of kInt8: what each column of a line is to be multiplied by.
  const T* scales(size_t index) const { return scales_.data() + index * kLine<T>; }
  // Of a line as tiles take it.
  size_t tile_line_bytes() const {
    return parts_.size() == 0 ? line_size() * sizeof(uint16_t) : parts_.size() / lines_;
  }
  // The parts of a line and of those behind it, as tiles take them; null: none, or not every weight has them.
  const std::byte* parts(size_t index) const {
    return parts_.size() == 0 ? nullptr : parts_.data() + index * tile_line_bytes();
  }
  // Without parts.
  size_t own_bytes() const { return data_.size() + scales_.size() * sizeof(T); }
  size_t bytes() const { return own_bytes() + parts_.size(); }

 private:
  // Weights of a unit that lie together.
  size_t in_word() const { return type() == WeightType::kInt8 ? 4 : type() == WeightType::kBFloat16 ? 2 : 1; }
  size_t offset(size_t index) const {
    if (together_ == 1) return index * line_size_;  // a division less for each panel
    const size_t in_group = index % together_;
    return (index - in_group) * line_size_ + in_group * kLine<T>;
  }
  template <typename Stored, typename Encode>
  void Pack(const T* source, size_t blocks, size_t units, const Encode& encode);
  void PackInt8(const T* source, size_t blocks, size_t units);
  void PackParts(const T* source, size_t blocks, size_t units);

  WeightForm form_ = WeightType::kAsGiven;
  size_t depth_ = 0;
  size_t line_size_ = 0;
  size_t lines_ = 0;
  size_t together_ = 1;
  AlignedBuffer<std::byte> data_;
  AlignedBuffer<std::byte> parts_;
  AlignedBuffer<T> scales_;
};

// A vector of `blocks` times `units` values in the order of the columns: biases.
template <typename T>
AlignedBuffer<T> PackVector(const T* source, size_t blocks, size_t units);

// The same block after block, each padded with zeros to whole lines: peepholes.
template <typename T>
AlignedBuffer<T> PadBlocks(const T* source, size_t blocks, size_t units);

}  // namespace rnnserve::cpu
