// SPDX-License-Identifier: Apache-2.0
// What a step needs of its input: the biases plus W x, for all steps of a stretch at once or for a panel of one step
// just before it is used. Both give the same bits, unless they may vary (WeightForm).
#pragma once

#include <cstddef>

#include "engine/cell.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/panels.h"
#include "engine/cpu/product.h"

namespace rnnserve::cpu {

// What the cell's W or R, of so many terms, is kept as. Whether parts pay is judged for all blocks, which take the same
// rows.
WeightForm FormOf(const CellSpec& spec, size_t depth, WeightForm weights);

// Of some of a cell's blocks, next to each other.
template <typename T>
class CellInputs {
 public:
  // Blocks `first` to `first + count`. With Wb + Rb for those before `summed`, Wb alone for the rest.
  CellInputs(const Cell& cell, size_t first, size_t count, size_t summed, WeightForm weights);

  size_t columns() const { return w_.columns(); }
  size_t bytes() const { return w_.bytes() + bias_.size() * sizeof(T); }
  bool IsByTiles(size_t count, const Factors<T>& x) const { return cpu::IsByTiles(count, x, w_); }
  // Whether prepared rows of bfloat16, or of its parts, suffice: else float32 is multiplied.
  bool TakesNarrowRows() const { return w_.type() == WeightType::kBFloat16 || w_.parts(0) != nullptr; }
  // Multiplications of a row.
  size_t work() const { return w_.columns() * w_.depth(); }

  // Into rows of columns().
  void Multiply(size_t count, const Factors<T>& x, Rows<T> target, Team& team) const;

  // Some lines of `count` rows: from `inputs`, where Multiply left them, or, where that is null, computed from `x` into
  // `buffer` of count * lines * kLine elements. `meanwhile`: as Product has it.
  Rows<const T> Find(size_t count, Rows<const T> inputs, const Factors<T>& x, size_t first_line, size_t lines,
                     T* buffer, Meanwhile* meanwhile) const;

 private:
  void MultiplyLines(size_t count, const Factors<T>& x, size_t first_line, size_t lines, Rows<T> target,
                     Meanwhile* meanwhile) const;

  PackedMatrix<T> w_;
  AlignedBuffer<T> bias_;
};

}  // namespace rnnserve::cpu
