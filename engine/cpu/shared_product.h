// SPDX-License-Identifier: Apache-2.0
// How the work of a step is cut for a Team: products by columns, element-wise work by rows. Neither changes a bit of
// any row. Small work is not cut: handing over and taking back costs about a microsecond.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/cpu/helper.h"
#include "engine/cpu/product.h"

namespace rnnserve::cpu {

// Multiplications of a part: about 1 us of one core at least and 80 us at most, for so long one thread may wait for the
// other at the end.
inline constexpr size_t kLeastPart = size_t{1} << 15;
inline constexpr size_t kMostPart = size_t{1} << 22;
// More would only cost more handing over.
inline constexpr size_t kEnoughParts = 8;
// An element's function takes as long as so many multiplications.
inline constexpr size_t kElement = 16;
// Weights that fit a core's own cache may be read by both: rows then stay with one core from product to function to
// product. Larger ones are read by columns, each part by one core.
inline constexpr size_t kOwnCacheBytes = size_t{1} << 20;
// Rows that a product takes at once; fewer would read the weights more often. An even number of parts, for two threads.
inline constexpr size_t kLeastRows = 6;

inline size_t PartsOf(size_t multiplications, size_t most) {
  const size_t parts = std::max(std::min(multiplications / kLeastPart, kEnoughParts), multiplications / kMostPart);
  return std::min(parts, most);
}

// As Multiply of product.h.
template <typename T>
void Multiply(size_t count, Rows<const T> rows, const PackedMatrix<T>& weights, const T* bias, Rows<T> target,
              Team& team) {
  const size_t panels = PanelCount(weights);
  const bool by_rows = weights.bytes() <= kOwnCacheBytes && count >= 2 * kLeastRows;
  const size_t parts =
      PartsOf(count * weights.columns() * weights.depth(), by_rows ? count / kLeastRows / 2 * 2 : panels);
  if (parts < 2 || !team.IsShared()) return Multiply(count, rows, weights, bias, target);
  team.Run(parts, [&](size_t part) {
    if (by_rows) {
      const size_t row = count * part / parts, end = count * (part + 1) / parts;
      Multiply(end - row, {rows.data + row * rows.stride, rows.stride}, weights, bias,
               {target.data + row * target.stride, target.stride});
    } else {
      const size_t first = panels * part / parts * kPanel<T>, end = panels * (part + 1) / parts * kPanel<T>;
      Multiply(count, rows, weights, bias, target, first, end);
    }
  });
}

// Calls each(row) for `count` rows of `width` elements.
template <typename Each>
void ForRows(size_t count, size_t width, Team& team, const Each& each) {
  const size_t parts = PartsOf(count * width * kElement, count);
  if (parts < 2 || !team.IsShared()) {
    for (size_t row = 0; row < count; ++row) each(row);
    return;
  }
  team.Run(parts, [&](size_t part) {
    for (size_t row = count * part / parts; row < count * (part + 1) / parts; ++row) each(row);
  });
}

}  // namespace rnnserve::cpu
