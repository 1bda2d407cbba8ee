// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/product.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "engine/cpu/dot_product.h"
#include "engine/cpu/tile_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "engine/cpu/int8_product-inl.h"
#include "engine/cpu/product_tile-inl.h"
#include "engine/cpu/weight_elements-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Lines from `line` on, those before it taken. Weights are asked for in line `ahead_line`, if it is one of these.
template <size_t kRows, size_t kLines, typename T, class Elements>
HWY_INLINE void TakeLines(const Tile<T, Elements>& tile, size_t line, size_t ahead_line) {
  Tile<T, Elements> part = tile;
  part.weights = tile.packed->template line<typename Elements::Stored>(tile.first_line + line);
  if constexpr (Elements::kScaled) part.scales += line * kLine<T>;
  part.start += line * kLine<T>;
  part.target += line * kLine<T>;
  if constexpr (Elements::kRowsTogether) {
    // Every tile of these lines asks for its share of the next ones.
    const size_t share = tile.depth / 4 * tile.asks * kLineBytes / sizeof(typename Elements::Stored);
    const size_t asked = (ahead_line * tile.lines + line) * share;
    if (tile.asks == 0 || asked >= tile.ahead) return MultiplyTile<kRows, kLines, 0>(part);
    part.ahead += asked - line * tile.line_stride;
    return tile.asks == 1 ? MultiplyTile<kRows, kLines, 1>(part) : MultiplyTile<kRows, kLines, 2>(part);
  } else {
    if (ahead_line - line >= kLines) return MultiplyTile<kRows, kLines, 0>(part);
    part.ahead += (ahead_line - line) * tile.line_stride;
    MultiplyTile<kRows, kLines, 1>(part);
  }
}

template <size_t kRows, typename T, class Elements>
HWY_NOINLINE void MultiplyRows(const Tile<T, Elements>& tile, size_t lines, size_t ahead_line) {
  if constexpr (kRows > kMostRows<T>) {
    if (lines == 3) return TakeLines<kRows, 3>(tile, 0, ahead_line);
  }
  constexpr size_t kMost = LinesAtOnce<T>(kRows);
  // Widened float16 needs registers of its own: six lines at once would take 1.7 times as long as four and two.
  if constexpr (kRows * 6 * kVectors<T> <= kMostSums && !std::is_same_v<Elements, HalfElements>) {
    if (lines == 6) return TakeLines<kRows, 6>(tile, 0, ahead_line);
  }
  const size_t group = std::min(lines, tile.packed->together() == 3 ? size_t{3} : kMostLines);
  for (size_t line = 0, end = group; line < lines; end += group) {
    for (; line + kMost <= end; line += kMost) TakeLines<kRows, kMost>(tile, line, ahead_line);
    if constexpr (kMost == 4) {
      if (end - line == 3) TakeLines<kRows, 3>(tile, std::exchange(line, end), ahead_line);
      if (end - line == 2) TakeLines<kRows, 2>(tile, std::exchange(line, end), ahead_line);
    }
    if constexpr (kMost > 1) {
      if (end > line) TakeLines<kRows, 1>(tile, line++, ahead_line);
    }
  }
}

template <typename T, class Elements>
HWY_INLINE void MultiplyBlock(size_t rows, const Tile<T, Elements>& tile, size_t lines, size_t ahead_line) {
  constexpr bool kManyRows = kMostRows<T> >= 4;
  if constexpr (kManyRows) {
    if (rows == 4) return MultiplyRows<4>(tile, lines, ahead_line);
    if (rows == 5) return MultiplyRows<5>(tile, lines, ahead_line);
    if (rows == 6) return MultiplyRows<6>(tile, lines, ahead_line);
  }
  if constexpr (kMostRowsOfThree<T> == 8) {
    if (rows == 7) return MultiplyRows<7>(tile, lines, ahead_line);
    if (rows == 8) return MultiplyRows<8>(tile, lines, ahead_line);
  }
  if constexpr (Elements::kRowsTogether) {
    // So no block has fewer than three: 7 are 4 and 3.
    static_assert(kPreparedRows >= kMostRows<T> && kMostRows<T> >= 5);
  } else {
    if (rows == 1) return MultiplyRows<1>(tile, lines, ahead_line);
    if (rows == 2) return MultiplyRows<2>(tile, lines, ahead_line);
  }
  MultiplyRows<3>(tile, lines, ahead_line);
}

constexpr size_t kNoLine = size_t{1} << 32;

// With AVX-512 weights above this are read once by seven or eight rows, two lines at a time: at H = 512 they take 0.85
// of the time of two blocks, whose four lines at a time are better while all is near.
constexpr size_t kReadOnceBytes = size_t{1} << 19;

// All rows, in blocks as even as can be: 32 rows are 6, 6, 5, 5, 5, 5. The first block asks for weights of the first
// line, the next one of the next; where rows lie together, each for a part of the lines that follow these.
template <typename T, class Elements>
HWY_INLINE void MultiplyBlocks(size_t blocks, size_t count, Tile<T, Elements> tile, size_t lines) {
  for (size_t line = tile.ahead == 0 ? kNoLine : 0; blocks > 0; --blocks, ++line) {
    const size_t rows = (count + blocks - 1) / blocks;
    MultiplyBlock(rows, tile, lines, line);
    count -= rows;
    tile.rows += rows * tile.row_stride;
    tile.start += rows * tile.start_stride;
    tile.target += rows * tile.target_stride;
  }
}

template <typename T, class Elements>
HWY_INLINE void MultiplyTerms(size_t count, Tile<T, Elements> tile, size_t lines) {
  const size_t together = tile.packed->together();
  const bool is_one = count <= kMostRowsOfThree<T> && together == 1 && tile.packed->own_bytes() > kReadOnceBytes;
  const size_t most = lines == 3 || is_one ? kMostRowsOfThree<T> : kMostRows<T>;
  const size_t blocks = (count + most - 1) / most;
  if constexpr (Elements::kRowsTogether) {
    // One line after the other, so that the next one is all that the second cache has to keep besides the rows: 8 rows
    // of H = 1024 take 0.9 of the time of whole panels. Three rows take two lines, for sums enough. Weights whose lines
    // lie in groups are near.
    static_assert(kMostRowsOfThree<T> == kMostRows<T>, "the blocks are PutTogether's");
    const size_t at_once = together > 1 ? lines : count / blocks < 4 ? 2 : 1;
    tile.asks = blocks < 4 ? 2 : 1;
    for (size_t taken = 0; taken < lines; taken += tile.lines) {
      tile.lines = std::min(at_once, lines - taken);
      if (tile.ahead != 0) tile.ahead = tile.lines * tile.line_stride;
      MultiplyBlocks(blocks, count, tile, tile.lines);
      tile.first_line += tile.lines;
      tile.start += tile.lines * kLine<T>;
      tile.target += tile.lines * kLine<T>;
    }
  } else {
    MultiplyBlocks(blocks, count, tile, lines);
  }
}

// Weights above this come from the next cache too late for a core that is busy with many rows: it asks for those of the
// next lines meanwhile. Cores of AVX2 alone have smaller caches; and on a larger one, 2 MiB, that was held to AVX2, 16
// rows of W and R of 1 MiB each took 0.94 of the time.
constexpr size_t kFarBytes = HWY_TARGET == HWY_AVX2 ? size_t{1} << 19 : size_t{2} << 20;

template <class Elements, typename T>
HWY_INLINE void MultiplyLinesBy(const Product<T>& product, Rows<const T> rows) {
  const PackedMatrix<T>& weights = *product.weights;
  const bool asks = weights.own_bytes() > kFarBytes && weights.together() == 1;
  const Tile<T, Elements> tile = {.rows = rows.data,
                                  .row_stride = rows.stride,
                                  .packed = &weights,
                                  .first_line = product.first_line,
                                  .line_stride = weights.line_stride(),
                                  .three_lines = 3 * weights.line_size(),
                                  .term_stride = weights.term_stride(),
                                  .depth = weights.depth(),
                                  .ahead = asks ? product.lines * weights.line_stride() : 0,
                                  .start = product.start.data,
                                  .start_stride = product.start.stride,
                                  .target = product.target.data,
                                  .target_stride = product.target.stride};
  if (product.count <= kMostRows<T>) return MultiplyBlock(product.count, tile, product.lines, kNoLine);
  MultiplyTerms(product.count, tile, product.lines);
}

template <class Elements, typename T>
HWY_INLINE void MultiplyLines(const Product<T>& product) {
  if constexpr (kPreparesRows && std::is_same_v<T, float>) {
    if (product.rows.prepared != nullptr) {
      const auto* const together = reinterpret_cast<const float*>(product.rows.prepared);
      return MultiplyLinesBy<WithRowsTogether<Elements>>(product, {together, product.weights->depth()});
    }
  }
  MultiplyLinesBy<Elements>(product, product.rows.From(0));
}

void MultiplyInt8(const Product<float>& product) {
  const PackedMatrix<float>& weights = *product.weights;
  const Tile<float, Int8Elements> tile = {.rows = product.rows.prepared,
                                          .row_stride = NarrowInt8Bytes(weights.depth()),
                                          .packed = &weights,
                                          .first_line = product.first_line,
                                          .line_stride = weights.line_stride(),
                                          .depth = weights.depth(),
                                          .ahead = 0,
                                          .scales = weights.scales(product.first_line),
                                          .start = product.start.data,
                                          .start_stride = product.start.stride,
                                          .target = product.target.data,
                                          .target_stride = product.target.stride};
  MultiplyTerms(product.count, tile, product.lines);
}

void NarrowInt8(size_t depth, size_t count, Rows<const float> rows, std::byte* target) {
  for (size_t row = 0; row < count; ++row) NarrowRow(rows.row(row), depth, target + row * NarrowInt8Bytes(depth));
}

bool PreparesRows() { return kPreparesRows; }

#if HWY_TARGET == HWY_AVX2
// Four rows, four terms: target[term * stride + row]. Where fewer rows are wanted, up to three floats behind a term's
// rows are garbage, until the next term or block is written over them.
HWY_INLINE void Transpose(const float* const rows[4], float* target, size_t stride) {
  const hn::Full128<float> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto row = [&](size_t r) HWY_ATTR { return hn::LoadU(d, rows[r]); };
  const auto low = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveLower(d, a, b)); };
  const auto high = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)); };
  const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
  const auto low01 = low(r0, r1), low23 = low(r2, r3), high01 = high(r0, r1), high23 = high(r2, r3);
  hn::StoreU(hn::BitCast(d, hn::ConcatLowerLower(pairs, low23, low01)), d, target);
  hn::StoreU(hn::BitCast(d, hn::ConcatUpperUpper(pairs, low23, low01)), d, target + stride);
  hn::StoreU(hn::BitCast(d, hn::ConcatLowerLower(pairs, high23, high01)), d, target + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::ConcatUpperUpper(pairs, high23, high01)), d, target + 3 * stride);
}

// The blocks are those of MultiplyTerms, which reads them.
void PutTogether(size_t depth, size_t count, Rows<const float> rows, float* target) {
  for (size_t blocks = (count + kMostRows<float> - 1) / kMostRows<float>; blocks > 0; --blocks) {
    const size_t block = (count + blocks - 1) / blocks;
    const auto four = [&](size_t first, size_t k) HWY_ATTR {
      const auto row = [&](size_t r) { return rows.row(std::min(first + r, block - 1)) + k; };
      const float* const from[4] = {row(0), row(1), row(2), row(3)};
      Transpose(from, target + k * block + first, block);
    };
    size_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      if (block > 4) four(4, k);  // before the rows that follow it
      four(0, k);
    }
    for (; k < depth; ++k) {
      for (size_t r = 0; r < block; ++r) target[k * block + r] = rows.row(r)[k];
    }
    rows.data += block * rows.stride;
    target += block * depth;
    count -= block;
  }
}
#else
void PutTogether(size_t, size_t, Rows<const float>, float*) {}
#endif

void MultiplyFloat(const Product<float>& product) {
  switch (product.weights->type()) {
    case WeightType::kAsGiven:
      return MultiplyLines<GivenElements<float>>(product);
    case WeightType::kFloat16:
      return MultiplyLines<HalfElements>(product);
    case WeightType::kBFloat16:
      return MultiplyLines<BrainElements>(product);
    case WeightType::kInt8:
      return MultiplyInt8(product);
  }
}
void MultiplyDouble(const Product<double>& product) { MultiplyLines<GivenElements<double>>(product); }

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(MultiplyFloat);
HWY_EXPORT(MultiplyDouble);
HWY_EXPORT(NarrowInt8);
HWY_EXPORT(PreparesRows);
HWY_EXPORT(PutTogether);

namespace {

bool IsByParts(WeightForm weights, size_t depth, size_t count, size_t columns) {
  return weights.has_parts() && count >= kPartsRows && PaysParts(depth, columns);
}

void MultiplyTiles(size_t parts, const std::byte* line, const Product<float>& product) {
  MultiplyByTiles(parts, {.rows = product.rows.prepared,
                          .weights = line,
                          .depth = product.weights->depth(),
                          .count = product.count,
                          .lines = product.lines,
                          .start = product.start.data,
                          .start_stride = product.start.stride,
                          .starts_at_zero = product.start.data == kZeroLines<float>,
                          .target = product.target.data,
                          .target_stride = product.target.stride,
                          .meanwhile = product.meanwhile});
}

}  // namespace

size_t TilePartsOf(WeightForm weights, size_t depth, size_t count, size_t columns) {
  if (IsByParts(weights, depth, count, columns)) return kBrainParts;
  return weights.type == WeightType::kBFloat16 && HasDotProduct(weights.type) ? 1 : 0;
}

size_t PreparedBytes(WeightForm weights, size_t depth, size_t count, size_t columns) {
  if (const size_t parts = TilePartsOf(weights, depth, count, columns)) return count * TileRowBytes(parts, depth);
  if (weights.has_parts()) return 0;
  if (weights.type == WeightType::kInt8) return count * NarrowInt8Bytes(depth);
  if (count < kPreparedRows || columns < kPreparedColumns || !HWY_DYNAMIC_DISPATCH(PreparesRows)()) return 0;
  return PadToLine<float>(count * depth + 4) * sizeof(float);  // PutTogether writes whole vectors
}

Factors<float> Prepare(WeightForm weights, size_t depth, size_t count, size_t columns, Rows<const float> rows,
                       std::byte* target) {
  if (const size_t parts = TilePartsOf(weights, depth, count, columns)) {
    if (!NarrowForTiles(parts, depth, count, rows.data, rows.stride, target)) target = nullptr;
  } else if (HasDotProduct(weights.type)) {
    NarrowForDotProduct(depth, count, rows, target);
  } else if (weights.type == WeightType::kInt8) {
    HWY_DYNAMIC_DISPATCH(NarrowInt8)(depth, count, rows, target);
  } else if (PreparedBytes(weights, depth, count, columns) == 0) {
    target = nullptr;
  } else {
    HWY_DYNAMIC_DISPATCH(PutTogether)(depth, count, rows, reinterpret_cast<float*>(target));
  }
  return {rows.data, rows.stride, target};
}

void Multiply(const Product<float>& product) {
  const PackedMatrix<float>& weights = *product.weights;
  const WeightForm form = weights.form();
  if (IsByTiles(product.count, product.rows, weights)) {
    if (form.has_parts()) return MultiplyTiles(kBrainParts, weights.parts(product.first_line), product);
    return MultiplyTiles(1, weights.line<std::byte>(0) + product.first_line * weights.tile_line_bytes(), product);
  }
  if (HasDotProduct(form.type)) return MultiplyByDotProduct(product);
  if (!form.has_parts()) return HWY_DYNAMIC_DISPATCH(MultiplyFloat)(product);
  Product<float> plain = product;  // prepared rows would be parts
  plain.rows.prepared = nullptr;
  HWY_DYNAMIC_DISPATCH(MultiplyFloat)(plain);
}
void Multiply(const Product<double>& product) { HWY_DYNAMIC_DISPATCH(MultiplyDouble)(product); }

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
