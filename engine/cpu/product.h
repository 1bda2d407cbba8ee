// SPDX-License-Identifier: Apache-2.0
// Rows times some lines of packed weights, on one thread:
//
//   target[r][j] = start[r][j] + sum over k of rows[r][k] * weights[k][j]
//
// Every element is the start value plus one chain of fused multiply-adds after the other, each over the next 64 k and
// begun from zero (which keeps rounding errors small), whatever the number of rows: a row gives the same bits alone, in
// any batch and in any cut of its sequence. This is what `deterministic` rests on, and why the general path has a
// product of its own: a library's choice of kernel varies with the number of rows. Where the last bits may vary
// (WeightForm), ours does too.
#pragma once

#include <cstddef>

#include "engine/cpu/meanwhile.h"
#include "engine/cpu/packed_matrix.h"
#include "engine/cpu/tile_product.h"

namespace rnnserve::cpu {

// Rows of a row-major matrix; the stride is counted in elements.
template <typename T>
struct Rows {
  T* data = nullptr;
  size_t stride = 0;

  T* row(size_t index) const { return data + index * stride; }
  // The columns from `column` on.
  Rows From(size_t column) const { return {data + column, stride}; }
  // The rows from `index` on.
  Rows Below(size_t index) const { return {row(index), stride}; }
  operator Rows<const T>() const { return {data, stride}; }
};

// A product takes at most so many lines; from kPanelLines on there is nothing gained by more.
inline constexpr size_t kMostLines = 8, kPanelLines = 4;

template <typename T>
alignas(kLineBytes) inline constexpr T kZeroLines[kMostLines * kLine<T>] = {};

template <typename T>
struct Factors {
  const T* data = nullptr;  // need the alignment of T only; null where `prepared` suffices
  size_t stride = 0;
  const std::byte* prepared = nullptr;  // all of these rows, as by Prepare
  // Of bfloat16 weights whose last bits may vary: tiles take one row as well.
  bool one_by_tiles = false;

  Rows<const T> From(size_t column) const { return {data + column, stride}; }
};

// Some products take their rows in another form, which is made once for all products of them with weights of so many
// `columns`: narrow rows for some kinds of narrow weights, which need them; parts for tiles (tile_product.h), where
// weights have them and the rows are many; and with AVX2, whose registers are few, the rows of a block term by term,
// which is faster from kPreparedRows rows and kPreparedColumns columns on. Bytes of that form, on cache lines; 0: rows
// as they are.
inline constexpr size_t kPreparedRows = 6, kPreparedColumns = 128;
size_t PreparedBytes(WeightForm weights, size_t depth, size_t count, size_t columns);
// In how many parts that form has the rows narrow, for tiles and for dot products of bfloat16, each by itself
// (NarrowRowForTiles); 0: it is another one.
size_t TilePartsOf(WeightForm weights, size_t depth, size_t count, size_t columns);
// `target`: of PreparedBytes at least.
Factors<float> Prepare(WeightForm weights, size_t depth, size_t count, size_t columns, Rows<const float> rows,
                       std::byte* target);

template <typename T>
struct Product {
  size_t count = 0;  // of rows, at least 1
  Factors<T> rows;
  const PackedMatrix<T>* weights = nullptr;
  // Of the weights, at most kMostLines.
  size_t first_line = 0;
  size_t lines = 0;
  // Lines next to each other, in rows that begin on cache lines. A stride of 0: the same for all rows. May be the
  // target.
  Rows<const T> start = {kZeroLines<T>, 0};
  Rows<T> target;                  // overlaps nothing else
  Meanwhile* meanwhile = nullptr;  // only products by tiles run it; Finish runs the rest
};

// Whether so many rows are multiplied with these weights by tiles.
inline bool IsByTiles(size_t count, const Factors<float>& rows, const PackedMatrix<float>& weights) {
  const WeightForm form = weights.form();
  if (form.has_parts()) return weights.parts(0) != nullptr && rows.prepared != nullptr;
  return IsByTiles(form.type) && (count > 1 || !form.may_vary || rows.one_by_tiles);
}
inline bool IsByTiles(size_t, const Factors<double>&, const PackedMatrix<double>&) { return false; }

void Multiply(const Product<float>& product);
void Multiply(const Product<double>& product);

}  // namespace rnnserve::cpu
