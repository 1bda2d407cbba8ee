// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/cell_sizes.h"

#include <algorithm>

#include "engine/cpu/panel_sums.h"
#include "engine/cpu/product.h"
#include "engine/cpu/tile_product.h"

namespace rnnserve::cpu {
namespace {

// What x and the inputs of a stretch may take together, unless a single step of a group needs more. About the
// size of a second-level cache; a longer stretch would only push the weights out.
constexpr size_t kStretchBytes = size_t{1} << 20;
// With tiles: shorter, so that the inputs stay in the core's own cache, where all of W does too (a bfloat16 LSTM of 16
// rows, H = 256, takes 0.73 of the time); longer where it does not, since W then is read less often.
constexpr size_t kNearTileStretchBytes = size_t{1} << 19, kFarTileStretchBytes = size_t{4} << 20;

// Rows whose steps take as long as reading the weights: every other step begins where the last one ended.
constexpr size_t kFewRows = 6;
// So do more rows by tiles, where the weights' bytes are more than a part of the second cache, and those of parts not
// so many that hardly any stay there: LSTM of 1,024 units, 64 rows, takes 1.06 times as long then, one of 512, 32 rows,
// 0.91.
constexpr size_t kLeastTurned = size_t{1} << 20, kMostTurnedParts = size_t{12} << 20;

// From how many rows on two threads may halve them: with weights that fit a core's own cache, those that fit the one
// that cores share, and larger ones. Both threads read all weights then.
constexpr size_t kNearRows = 8, kMiddleRows = 32, kFarRows = 64;
constexpr size_t kNearWeights = size_t{1} << 20, kMiddleWeights = size_t{16} << 20;
// Instead of kNearWeights where rows have several steps: halves save the handing over at each of them. 3 MiB, and
// biases.
constexpr size_t kNearWeightsOfSteps = size_t{25} << 17;
// Multiplications that are over before the helper has taken its half and given it back.
constexpr int64_t kLeastHalved = int64_t{1} << 19;

// Multiplications of a step from which one row of bfloat16 may go through tiles; and bytes of weights that a core keeps
// in its own cache, where tiles read them in half of the time that dot products take. From further off neither is
// faster.
constexpr size_t kLeastOfOne = size_t{1} << 18, kNearOfOne = size_t{2} << 20;

// Multiplications of a step of few rows from which two threads share it, though it is one of many.
constexpr size_t kLeastInStep = size_t{1} << 15;

}  // namespace

bool CellSizes::MayChooseTiles(size_t rows, const Lengths& steps, bool is_shared) const {
  if (!has_parts) {
    return rows == 1 && IsByTiles(weights.type) && weights.may_vary && StepWork() >= kLeastOfOne &&
           packed_bytes <= (is_shared ? 2 : 1) * kNearOfOne;
  }
  // Products of kPartsRows rows and more go by parts: all, or those with W of several steps of fewer rows.
  return steps.all >= static_cast<int64_t>(kPartsRows) && (rows >= kPartsRows || PaysParts(inputs, input_columns));
}

bool CellSizes::MayHalve(size_t rows, const Lengths& steps) const {
  const size_t bytes = ReadBytes(), near = steps.longest > 1 ? kNearWeightsOfSteps : kNearWeights;
  const size_t least = bytes <= near ? kNearRows : bytes <= kMiddleWeights ? kMiddleRows : kFarRows;
  // One long row would leave the other thread without work.
  return steps.all * static_cast<int64_t>(StepWork()) >= kLeastHalved && rows >= least &&
         2 * steps.longest <= steps.all;
}

bool CellSizes::HalvesAtFirst() const { return ReadBytes() <= kMiddleWeights; }

// Not where a step has something to do before its product.
bool CellSizes::MayGoInStep(size_t rows) const {
  return rows < kFewRows && rows * input_columns * units >= kLeastInStep &&
         PreparedBytes(weights, units, rows, input_columns) == 0;
}

// Tiles of bfloat16 gain up to a seventh by it; those of parts, which pass by each panel twice, only where R alone is
// read.
bool CellSizes::TurnsAround(size_t rows, bool ahead, bool by_tiles) const {
  if (rows < kFewRows) return true;
  const size_t bytes = (ahead ? units : inputs + units) * input_columns * sizeof(uint16_t);
  if (IsByTiles(weights.type)) return bytes > kLeastTurned;
  return has_parts && rows >= kPartsRows && by_tiles && ahead && kBrainParts * bytes > kLeastTurned &&
         kBrainParts * bytes <= kMostTurnedParts;
}

size_t CellSizes::StretchRows(size_t row_bytes) const {
  const size_t parts = HasTiles() ? TilePartsOf(weights, inputs, kGroupRows, input_columns) : 0;
  const size_t w = parts * sizeof(uint16_t) * inputs * input_columns;
  const size_t bytes = parts == 0                   ? kStretchBytes
                       : w <= kNearTileStretchBytes ? kNearTileStretchBytes
                                                    : kFarTileStretchBytes;
  return std::max<size_t>(1, bytes / row_bytes);
}

}  // namespace rnnserve::cpu
