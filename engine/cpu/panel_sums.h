// SPDX-License-Identifier: Apache-2.0
// The sums of a panel: a few lines of some rows, small enough for a core's own caches.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/cpu/product.h"
#include "engine/cpu/tile_product.h"

namespace rnnserve::cpu {

// At most so many rows at once: more gain nothing by sharing one pass over the weights.
constexpr size_t kGroupRows = 128;

// Lines of units that a panel of so many rows has: the product of few rows, and their functions, wait for each other
// less if there are two. With four, one row of an LSTM of H = 128 took 1.4 times as long with AVX2. Tiles wait less
// too: an LSTM of 16 rows, H = 256, takes 0.92 of the time.
inline size_t BlocksOfPanel(size_t rows, WeightForm weights) {
  const bool is_by_tiles = IsByTiles(weights.type) && rows <= kGroupRows / 2;
  return rows < 4 || is_by_tiles ? 2 : 1;
}

template <typename T>
struct PanelBuffer {
  alignas(kLineBytes) T inputs[kGroupRows * kPanelLines * kLine<T>];   // biases and W x, row by row
  alignas(kLineBytes) T state[kGroupRows * kPanelLines * kLine<T>];    // R h, row by row
  alignas(kLineBytes) T by_line[kGroupRows * kPanelLines * kLine<T>];  // for functions: a line of their rows each
};

// Of some rows of a step, `first_row` and those below it, and of lines of R.
template <typename T>
struct PanelSums {
  size_t first_row = 0;
  size_t count = 0;
  size_t first_line = 0;
  size_t lines = 0;
  Rows<const T> inputs;
  Rows<T> state;
  T* by_line = nullptr;

  // Of rows from `row` on, `most` of them or what is left.
  PanelSums From(size_t row, size_t most) const {
    return {first_row + row, std::min(most, count - row), first_line, lines, inputs.Below(row), state.Below(row),
            by_line};
  }
};

// by_line = inputs + state.
void AddByLine(size_t count, size_t lines, Rows<const float> inputs, Rows<const float> state, float* by_line);
void AddByLine(size_t count, size_t lines, Rows<const double> inputs, Rows<const double> state, double* by_line);

}  // namespace rnnserve::cpu
