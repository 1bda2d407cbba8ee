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

// A tile is `kRows` rows by `kVectors` vectors of sums, all in registers; its panel is `width` columns wide.
template <typename T>
struct Tile {
  const T* rows;
  size_t row_stride;
  const T* weights;
  size_t width;
  size_t depth;
  const T* start;  // of the sums
  size_t start_stride;
  T* target;
  size_t target_stride;
};

template <size_t kRows, size_t kVectors, typename T>
HWY_INLINE void MultiplyTile(const Tile<T>& tile) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[kRows][kVectors];
  const T* HWY_RESTRICT weights = tile.weights;
  const T* HWY_RESTRICT rows = tile.rows;
  const T* start = tile.start;
  size_t start_stride = tile.start_stride;
  size_t k = 0;
  do {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
    }
    for (const size_t end = std::min(k + kChain, tile.depth); k < end; ++k, weights += tile.width) {
      hn::Vec<decltype(d)> column[kVectors];
      for (size_t v = 0; v < kVectors; ++v) column[v] = hn::Load(d, weights + v * lanes);
      for (size_t r = 0; r < kRows; ++r) {
        const auto factor = hn::Set(d, rows[r * tile.row_stride + k]);
        for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(factor, column[v], sum[r][v]);
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        const auto before = hn::Load(d, start + r * start_stride + v * lanes);
        hn::Store(hn::Add(before, sum[r][v]), d, tile.target + r * tile.target_stride + v * lanes);
      }
    }
    start = tile.target;
    start_stride = tile.target_stride;
  } while (k < tile.depth);
}

// Sums and one column of weights must fit the registers: 32 with AVX-512, 16 before it.
constexpr bool kManyRegisters = HWY_MAX_BYTES >= 64;
constexpr size_t kMaxRows = 6;
constexpr size_t VectorsFor(size_t rows) { return kManyRegisters || rows <= 3 ? 4 : 2; }

// All columns of the panel, `kStep` vectors at a time.
template <size_t kRows, size_t kStep, typename T>
HWY_INLINE void MultiplyColumns(Tile<T> tile, size_t width) {
  const size_t step = kStep * hn::Lanes(hn::ScalableTag<T>());
  for (size_t column = 0; column + step <= width; column += step) {
    MultiplyTile<kRows, kStep>(tile);
    tile.weights += step;
    tile.start += step;
    tile.target += step;
  }
}

template <size_t kRows, typename T>
HWY_NOINLINE void MultiplyRows(const Tile<T>& tile) {
  if (tile.width == kPanel<T>) return MultiplyColumns<kRows, VectorsFor(kRows)>(tile, tile.width);
  // A line holds one vector of 64 bytes, or two or more smaller ones.
  MultiplyColumns<kRows, kManyRegisters ? 1 : 2>(tile, tile.width);
}

template <typename T>
void MultiplyBlock(size_t rows, const Tile<T>& tile) {
  switch (rows) {
    case 1:
      return MultiplyRows<1>(tile);
    case 2:
      return MultiplyRows<2>(tile);
    case 3:
      return MultiplyRows<3>(tile);
    case 4:
      return MultiplyRows<4>(tile);
    case 5:
      return MultiplyRows<5>(tile);
    default:
      return MultiplyRows<kMaxRows>(tile);
  }
}

// The rows in blocks as even as can be: 32 rows are 6, 6, 5, 5, 5, 5.
template <typename T>
void MultiplyPanel(size_t count, Tile<T> tile) {
  for (size_t blocks = (count + kMaxRows - 1) / kMaxRows; blocks > 0; --blocks) {
    const size_t rows = (count + blocks - 1) / blocks;
    MultiplyBlock(rows, tile);
    count -= rows;
    tile.rows += rows * tile.row_stride;
    tile.start += rows * tile.start_stride;
    tile.target += rows * tile.target_stride;
  }
}

template <typename T>
void MultiplyPanels(size_t count, Rows<const T> rows, const PackedMatrix<T>& weights, const T* bias, Rows<T> target,
                    size_t first, size_t end) {
  for (size_t column = first; column < std::min(end, weights.columns()); column += kPanel<T>) {
    const T* start = bias != nullptr ? bias : target.data;
    MultiplyPanel(count, Tile<T>{.rows = rows.data,
                                 .row_stride = rows.stride,
                                 .weights = weights.panel(column),
                                 .width = std::min(kPanel<T>, weights.columns() - column),
                                 .depth = weights.depth(),
                                 .start = start + column,
                                 .start_stride = bias != nullptr ? 0 : target.stride,
                                 .target = target.data + column,
                                 .target_stride = target.stride});
  }
}

void MultiplyFloat(size_t count, Rows<const float> rows, const PackedMatrix<float>& weights, const float* bias,
                   Rows<float> target, size_t first, size_t end) {
  MultiplyPanels(count, rows, weights, bias, target, first, end);
}

void MultiplyDouble(size_t count, Rows<const double> rows, const PackedMatrix<double>& weights, const double* bias,
                    Rows<double> target, size_t first, size_t end) {
  MultiplyPanels(count, rows, weights, bias, target, first, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(MultiplyFloat);
HWY_EXPORT(MultiplyDouble);

void Multiply(size_t count, Rows<const float> rows, const PackedMatrix<float>& weights, const float* bias,
              Rows<float> target, size_t first, size_t end) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloat)(count, rows, weights, bias, target, first, end);
}

void Multiply(size_t count, Rows<const double> rows, const PackedMatrix<double>& weights, const double* bias,
              Rows<double> target, size_t first, size_t end) {
  HWY_DYNAMIC_DISPATCH(MultiplyDouble)(count, rows, weights, bias, target, first, end);
}

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
