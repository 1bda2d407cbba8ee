// SPDX-License-Identifier: Apache-2.0
// A cell's sizes, and which ways its runs may go by them. Where two may be as fast, the program measures them
// (faster_way.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu/packed_matrix.h"

namespace rnnserve::cpu {

// Steps of some rows.
struct Lengths {
  int64_t all = 0;
  int64_t longest = 0;
};

struct CellSizes {
  WeightForm weights;
  bool has_parts;        // W, R or both
  size_t packed_bytes;   // of all weights
  size_t inputs;         // of a row of x
  size_t input_columns;  // of a row of W x: all gates
  size_t units;

  // Multiplications of a row's step.
  size_t StepWork() const { return input_columns * (inputs + units); }
  // Of the weights that a step reads: those for multiply-adds or their parts, about as many.
  size_t ReadBytes() const { return has_parts ? StepWork() * sizeof(float) : packed_bytes; }

  // Whether products may go through tiles or not (TilesWay); not where that would be as seldom as not to matter.
  bool MayChooseTiles(size_t rows, const Lengths& steps, bool is_shared) const;
  // Whether each thread may run half of the rows through all units, instead of all rows through half of the units. That
  // saves the handing over, and the exchange of h, at every step.
  bool MayHalve(size_t rows, const Lengths& steps) const;
  // What to begin with.
  bool HalvesAtFirst() const;
  // Whether two threads go side by side through the steps of so few rows.
  bool MayGoInStep(size_t rows) const;
  // Whether a step begins where the last one ended, with what is still in the cache. `ahead`: it reads R alone.
  bool TurnsAround(size_t rows, bool ahead, bool by_tiles) const;
  // Rows of a stretch, at least 1, where x and the inputs of one take `row_bytes`.
  size_t StretchRows(size_t row_bytes) const;
};

}  // namespace rnnserve::cpu
