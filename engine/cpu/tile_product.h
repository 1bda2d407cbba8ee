// SPDX-License-Identifier: Apache-2.0
// Products by tiles (AMX): sixteen rows of 32 numbers of bfloat16 times 32 rows of sixteen columns, in one instruction.
// Narrow weights of bfloat16 are multiplied so where the CPU has tiles.
//
// So is float32 of many rows: a number is the sum of three of bfloat16 (eight bits of its 24 each), and of the nine
// products of two numbers' parts the six largest are summed. The three that are left out are at most 2^-25 of the whole
// each, and 32 terms are rounded at once, so over a few hundred terms the result is nearer to the exact one than that
// of multiply-adds, and about as near over a thousand (but for numbers below 1e-33, whose last parts tiles take for
// zero). The parts are half as large again as the weights, and beside a busy neighbour on the same core tiles lose, so
// both ways are measured (faster_way.h).
//
// Both differ in the last bits from what takes fewer rows, so programs that are `deterministic` have no parts, and take
// tiles of bfloat16 for one row as well.
//
//   a row of x or h:  [terms 0..31 of part 0, 64 bytes] [of part 1] [of part 2] [terms 32..63 of part 0] ...
//   a line of weights: the same for every pair of terms of 16 columns: 1 KiB for 32 terms of a part
//
// What is behind the last term is zero in both. Parts: 3, or 1 where weights are kept as bfloat16.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/meanwhile.h"
#include "engine/weight_type.h"

namespace rnnserve::cpu {

inline constexpr size_t kTileTerms = 32, kTileRows = 16;
inline constexpr size_t kTileBytes = kTileRows * kLineBytes;
inline constexpr size_t kBrainParts = 3;
// From so many rows on parts are multiplied sooner than float32: a tile of rows takes as long as its rows are many.
inline constexpr size_t kPartsRows = 8;
// Below this no product or sum of parts is infinite, however many terms PaysParts allows.
inline constexpr float kMostInParts = 0x1p56F;

// Larger weights have no parts, which take half as many bytes again; their bytes as float32.
inline constexpr size_t kMostBytesInParts = size_t{1} << 25;
inline constexpr size_t kMostTermsInParts = size_t{1} << 14;

// Whether this CPU has tiles of bfloat16, within MaxInstructionSet(), and the kernel lets this process use them.
bool HasTiles();

// Whether weights that are kept as `type` are multiplied by tiles.
inline bool IsByTiles(WeightType type) { return type == WeightType::kBFloat16 && HasTiles(); }

// Whether weights of these sizes are worth their parts.
constexpr bool PaysParts(size_t depth, size_t columns) {
  return depth >= kTileTerms && depth <= kMostTermsInParts && columns <= kMostBytesInParts / sizeof(float) / depth;
}

constexpr size_t TilesOf(size_t depth) { return (depth + kTileTerms - 1) / kTileTerms; }
// An odd number of cache lines, so that sixteen rows do not share a set of the cache.
constexpr size_t TileRowBytes(size_t parts, size_t depth) { return (parts * TilesOf(depth) | 1) * kLineBytes; }

// A number below kMostInParts as a sum, the largest part first, each rounded to the nearest, ties to even.
inline std::array<uint16_t, kBrainParts> InParts(float number) {
  std::array<uint16_t, kBrainParts> parts;
  for (uint16_t& part : parts) {
    const auto bits = std::bit_cast<uint32_t>(number);
    part = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    number -= std::bit_cast<float>(uint32_t{part} << 16);
  }
  return parts;
}

// `count` rows in `parts` (1 or 3) into rows of TileRowBytes, on CPUs with AVX-512 BF16. False, with three parts, if a
// number is kMostInParts or above, infinite or NaN: multiply-adds have to take them.
bool NarrowForTiles(size_t parts, size_t depth, size_t count, const float* rows, size_t stride, std::byte* target);
// Of one row of float32, wherever it lies.
bool NarrowRowForTiles(size_t parts, size_t depth, const std::byte* row, std::byte* target);

// target = start + rows times lines. Rows that begin on cache lines, strides in floats; `start` may be the target.
struct TileProduct {
  const std::byte* rows;
  const std::byte* weights;  // of the first line
  size_t depth;
  size_t count;
  size_t lines;
  const float* start;
  size_t start_stride;
  bool starts_at_zero;  // of three parts, all of `start` is zero
  float* target;
  size_t target_stride;
  Meanwhile* meanwhile = nullptr;
};

// From kKeptLinesRows rows on two lines of weights stay in the nearest cache and rows pass by it, if the lines take up
// to kKeptLinesBytes; else the rows of two tiles stay, and weights pass by.
inline constexpr size_t kKeptLinesBytes = size_t{32} << 10, kKeptLinesRows = 128;
inline bool KeepsWeights(size_t parts, const TileProduct& product) {
  return product.count >= kKeptLinesRows && 2 * parts * TilesOf(product.depth) * kTileBytes <= kKeptLinesBytes;
}

void MultiplyByTiles(size_t parts, const TileProduct& product);

// While one lives, this thread's tiles keep their shape from product to product: to set and release them takes 200
// cycles, a tenth of a small product. Nothing else on the thread may use tiles meanwhile, and there is one at a time.
class KeptTiles {
 public:
  KeptTiles();
  ~KeptTiles();
  KeptTiles(const KeptTiles&) = delete;
  KeptTiles& operator=(const KeptTiles&) = delete;
};

}  // namespace rnnserve::cpu
