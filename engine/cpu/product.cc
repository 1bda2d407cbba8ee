// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/product.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Terms summed up from zero before they meet the rest. One chain over all terms, begun from a large start value, rounds
// every term at the size of the whole: over a trained GRU of 256 units that cost 1.2e-5 in h, chains of 64 cost 5e-6.
constexpr size_t kChain = 64;

// Sums, a column of weights and a factor must fit the registers: 32 with AVX-512, 16 before it. Eight sums at least
// keep both multiply-add units busy.
constexpr size_t kMostSums = HWY_MAX_BYTES >= 64 ? 24 : 12;
template <typename T>
constexpr size_t kLanes = HWY_LANES(T);
template <typename T>
constexpr size_t kVectors = kLine<T> / kLanes<T>;  // of a line
template <typename T>
constexpr size_t kMostRows = std::clamp<size_t>(kMostSums / kVectors<T>, 1, 6);
// Lines that `rows` rows take at once: 1, 2 or 4; 3 or 6 where that leaves none.
template <typename T>
constexpr size_t LinesAtOnce(size_t rows) {
  const size_t most = kMostSums / (rows * kVectors<T>);
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

template <typename T>
struct Tile {
  const T* rows;
  size_t row_stride;
  const T* weights;
  size_t line_stride;
  size_t depth;
  size_t ahead;  // distance of weights to be asked for; 0: none
  const T* start;
  size_t start_stride;
  T* target;
  size_t target_stride;
};

template <typename T>
constexpr size_t LineOf(size_t vector) {
  return vector / kVectors<T>;
}

// `kRows` rows and `kLines` lines, all sums of a chain in registers.
template <size_t kRows, size_t kLines, bool kAhead, typename T>
HWY_INLINE void MultiplyTile(const Tile<T>& tile) {
  const hn::ScalableTag<T> d;
  constexpr size_t kWidth = kLines * kVectors<T>;
  hn::Vec<decltype(d)> sum[kRows][kWidth];
  const T* HWY_RESTRICT weights = tile.weights;
  const T* HWY_RESTRICT rows = tile.rows;
  const T* start = tile.start;
  size_t start_stride = tile.start_stride;
  size_t k = 0;
  do {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kWidth; ++v) sum[r][v] = hn::Zero(d);
    }
    const auto add_term = [&](size_t next) HWY_ATTR {
      const T* const line = weights + next * kLine<T>;
      if constexpr (kAhead) __builtin_prefetch(line + tile.ahead, 0, 2);
      hn::Vec<decltype(d)> column[kWidth];
      for (size_t v = 0; v < kWidth; ++v) {
        column[v] = hn::Load(d, line + LineOf<T>(v) * tile.line_stride + v % kVectors<T> * kLanes<T>);
      }
      for (size_t r = 0; r < kRows; ++r) {
        const auto factor = hn::Set(d, rows[r * tile.row_stride + k + next]);
        for (size_t v = 0; v < kWidth; ++v) sum[r][v] = hn::MulAdd(factor, column[v], sum[r][v]);
      }
    };
    // Two at a time: with AVX2, eight rows of H = 256 take 0.78 of the time of one at a time.
    const size_t end = std::min(k + kChain, tile.depth);
    for (; k + 2 <= end; k += 2, weights += 2 * kLine<T>) {
      add_term(0);
      add_term(1);
    }
    for (; k < end; ++k, weights += kLine<T>) add_term(0);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kWidth; ++v) {
        const auto before = hn::Load(d, start + r * start_stride + v * kLanes<T>);
        hn::Store(hn::Add(before, sum[r][v]), d, tile.target + r * tile.target_stride + v * kLanes<T>);
      }
    }
    start = tile.target;
    start_stride = tile.target_stride;
  } while (k < tile.depth);
}

// Lines from `line` on, those before it taken. Weights are asked for in line `ahead_line`, if it is one of these.
template <size_t kRows, size_t kLines, typename T>
HWY_INLINE void TakeLines(const Tile<T>& tile, size_t line, size_t ahead_line) {
  Tile<T> part = tile;
  part.weights += line * tile.line_stride;
  part.start += line * kLine<T>;
  part.target += line * kLine<T>;
  if (ahead_line - line < kLines) {
    part.ahead += (ahead_line - line) * tile.line_stride;
    MultiplyTile<kRows, kLines, true>(part);
  } else {
    MultiplyTile<kRows, kLines, false>(part);
  }
}

template <size_t kRows, typename T>
HWY_NOINLINE void MultiplyRows(const Tile<T>& tile, size_t lines, size_t ahead_line) {
  constexpr size_t kMost = LinesAtOnce<T>(kRows);
  if constexpr (kRows * 6 * kVectors<T> <= kMostSums) {
    if (lines == 6) return TakeLines<kRows, 6>(tile, 0, ahead_line);
  }
  size_t line = 0;
  for (; line + kMost <= lines; line += kMost) TakeLines<kRows, kMost>(tile, line, ahead_line);
  if constexpr (kMost == 4) {
    if (lines - line == 3) return TakeLines<kRows, 3>(tile, line, ahead_line);
    if (lines - line == 2) return TakeLines<kRows, 2>(tile, line, ahead_line);
  }
  if constexpr (kMost > 1) {
    if (lines > line) TakeLines<kRows, 1>(tile, line, ahead_line);
  }
}

template <typename T>
HWY_INLINE void MultiplyBlock(size_t rows, const Tile<T>& tile, size_t lines, size_t ahead_line) {
  constexpr bool kManyRows = kMostRows<T> >= 4;
  if constexpr (kManyRows) {
    if (rows == 4) return MultiplyRows<4>(tile, lines, ahead_line);
    if (rows == 5) return MultiplyRows<5>(tile, lines, ahead_line);
    if (rows == 6) return MultiplyRows<6>(tile, lines, ahead_line);
  }
  if (rows == 1) return MultiplyRows<1>(tile, lines, ahead_line);
  if (rows == 2) return MultiplyRows<2>(tile, lines, ahead_line);
  MultiplyRows<3>(tile, lines, ahead_line);
}

constexpr size_t kNoLine = size_t{1} << 32;

// The rows in blocks as even as can be: 32 rows are 6, 6, 5, 5, 5, 5. The first block asks for weights of the first
// line, the next one of the next.
template <typename T>
HWY_INLINE void MultiplyTerms(size_t count, Tile<T> tile, size_t lines) {
  size_t line = tile.ahead == 0 ? kNoLine : 0;
  for (size_t blocks = (count + kMostRows<T> - 1) / kMostRows<T>; blocks > 0; --blocks, ++line) {
    const size_t rows = (count + blocks - 1) / blocks;
    MultiplyBlock(rows, tile, lines, line);
    count -= rows;
    tile.rows += rows * tile.row_stride;
    tile.start += rows * tile.start_stride;
    tile.target += rows * tile.target_stride;
  }
}

// Weights above this come from the next cache too late for a core that is busy with many rows: it asks for those of the
// next lines meanwhile.
constexpr size_t kFarBytes = size_t{2} << 20;

template <typename T>
HWY_INLINE void MultiplyLines(const Product<T>& product) {
  const PackedMatrix<T>& weights = *product.weights;
  const Tile<T> tile = {.rows = product.rows.data,
                        .row_stride = product.rows.stride,
                        .weights = weights.line(product.first_line),
                        .line_stride = weights.line_stride(),
                        .depth = weights.depth(),
                        .ahead = weights.bytes() > kFarBytes ? product.lines * weights.line_stride() : 0,
                        .start = product.start.data,
                        .start_stride = product.start.stride,
                        .target = product.target.data,
                        .target_stride = product.target.stride};
  if (product.count <= kMostRows<T>) return MultiplyBlock(product.count, tile, product.lines, kNoLine);
  MultiplyTerms(product.count, tile, product.lines);
}

void MultiplyFloat(const Product<float>& product) { MultiplyLines(product); }
void MultiplyDouble(const Product<double>& product) { MultiplyLines(product); }

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(MultiplyFloat);
HWY_EXPORT(MultiplyDouble);

void Multiply(const Product<float>& product) { HWY_DYNAMIC_DISPATCH(MultiplyFloat)(product); }
void Multiply(const Product<double>& product) { HWY_DYNAMIC_DISPATCH(MultiplyDouble)(product); }

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
