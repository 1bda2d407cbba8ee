// SPDX-License-Identifier: Apache-2.0
// The innermost part of a product: a few rows times a few lines of weights, all sums in registers. Included once per
// Highway target, hence the guard that toggles.
#if defined(RNNSERVE_PRODUCT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RNNSERVE_PRODUCT_TILE_INL_H_
#undef RNNSERVE_PRODUCT_TILE_INL_H_
#else
#define RNNSERVE_PRODUCT_TILE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cpu/int8_product-inl.h"
#include "engine/cpu/packed_matrix.h"
#include "engine/cpu/unroll.h"
#include "engine/cpu/weight_elements-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Terms summed up from zero before they meet the rest. One chain over all terms, begun from a large start value, rounds
// every term at the size of the whole: over a trained GRU of 256 units that cost 1.2e-5 in h, chains of 64 cost 5e-6.
constexpr size_t kChain = 64;

// Sums, a column of weights and a factor must fit the registers: 32 with AVX-512, 16 or more elsewhere. Eight sums at
// least keep both multiply-add units busy.
constexpr size_t kRegisters = HWY_MAX_BYTES >= 64 ? 32 : 16;
constexpr size_t kMostSums = kRegisters / 4 * 3;
template <typename T>
constexpr size_t kLanes = HWY_LANES(T);
template <typename T>
constexpr size_t kVectors = kLine<T> / kLanes<T>;  // of a line
template <typename T>
constexpr size_t kMostRows = std::clamp<size_t>(kMostSums / kVectors<T>, 1, 6);
// Three lines leave registers for more rows.
template <typename T>
constexpr size_t kMostRowsOfThree = std::max(kMostRows<T>, std::min<size_t>(8, kMostSums / kVectors<T> / 3));
// Lines that `rows` rows take at once: 1, 2 or 4; 3 or 6 where that leaves none.
template <typename T>
constexpr size_t LinesAtOnce(size_t rows) {
  const size_t most = kMostSums / (rows * kVectors<T>);
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

// Rows of a block that lie together, term by term: one address instead of one a row, of which there are too many for
// the registers.
template <class Kind>
struct WithRowsTogether : Kind {
  static constexpr bool kRowsTogether = true;
};
constexpr bool kPreparesRows = HWY_TARGET == HWY_AVX2;

template <typename T, class Elements>
struct Tile {
  const T* rows;
  size_t row_stride;
  const PackedMatrix<T>* packed;
  size_t first_line;
  const typename Elements::Stored* weights = nullptr;  // of the lines that are taken
  size_t line_stride;
  size_t three_lines;  // distance of the fourth of six lines
  size_t term_stride;
  size_t depth;
  size_t ahead;  // distance of weights to be asked for; 0: none
  // Of rows that lie together: lines that all of them take before the next, and cache lines that are asked for every
  // four terms.
  size_t lines = 0, asks = 0;
  const T* start;
  size_t start_stride;
  T* target;
  size_t target_stride;
};

template <>
struct Tile<float, Int8Elements> {
  const std::byte* rows;  // narrow
  size_t row_stride;
  const PackedMatrix<float>* packed;
  size_t first_line;
  const int8_t* weights = nullptr;
  size_t line_stride;
  size_t depth;
  size_t ahead;  // none
  const float* scales;
  const float* start;
  size_t start_stride;
  float* target;
  size_t target_stride;
};

template <typename T>
constexpr size_t LineOf(size_t vector) {
  return vector / kVectors<T>;
}

// Of a tile of `kLines`: six may be two groups of three.
template <size_t kLines, class Tile>
HWY_INLINE size_t LineOffset(const Tile& tile, size_t line) {
  if (kLines == 6 && line >= 3) return tile.three_lines + (line - 3) * tile.line_stride;
  return line * tile.line_stride;
}

// What compilers would otherwise load again for each row: two rows of H = 128 take 0.8 of the time so, three 0.75 (a
// Xeon; two with AVX2 as well).
template <class V>
HWY_INLINE V InRegister(V vector) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  asm("" : "+v"(vector.raw));
#endif
  return vector;
}

template <size_t kRows, size_t kWidth, class D>
HWY_INLINE void Clear(D d, hn::Vec<D> (&sum)[kRows][kWidth]) {
  RNNSERVE_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    RNNSERVE_UNROLL
    for (size_t v = 0; v < kWidth; ++v) sum[r][v] = hn::Zero(d);
  }
}

// target = start + sum, of each row.
template <size_t kRows, size_t kWidth, class D, typename T = hn::TFromD<D>>
HWY_INLINE void AddTo(D d, const T* start, size_t start_stride, const hn::Vec<D> (&sum)[kRows][kWidth], T* target,
                      size_t target_stride) {
  RNNSERVE_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    RNNSERVE_UNROLL
    for (size_t v = 0; v < kWidth; ++v) {
      const auto before = hn::Load(d, start + r * start_stride + v * kLanes<T>);
      hn::Store(hn::Add(before, sum[r][v]), d, target + r * target_stride + v * kLanes<T>);
    }
  }
}

// `kRows` rows and `kLines` lines, all sums of a chain in registers. With `kAhead` weights are asked for, at tile.ahead
// from those in use: each term those of another one, or every four terms kAhead cache lines in a row.
template <size_t kRows, size_t kLines, int kAhead, typename T, class Elements>
HWY_INLINE void MultiplyTile(const Tile<T, Elements>& tile) {
  const hn::ScalableTag<T> d;
  constexpr size_t kWidth = kLines * kVectors<T>;
  hn::Vec<decltype(d)> sum[kRows][kWidth];
  const typename Elements::Stored* HWY_RESTRICT weights = tile.weights;
  const T* HWY_RESTRICT rows = tile.rows;
  const T* start = tile.start;
  size_t start_stride = tile.start_stride;
  [[maybe_unused]] const auto* next_line = reinterpret_cast<const std::byte*>(weights + tile.ahead);
  size_t k = 0;
  do {
    Clear(d, sum);
    const auto add_term = [&](const typename Elements::Stored* term, size_t next) HWY_ATTR {
      if constexpr (kAhead != 0 && !Elements::kRowsTogether) __builtin_prefetch(term + tile.ahead, 0, 2);
      const auto column = [&](size_t v) HWY_ATTR {
        return Elements::Load(d, term + LineOffset<kLines>(tile, LineOf<T>(v)), next % 2, v % kVectors<T>);
      };
      const auto factor = [&](size_t r) HWY_ATTR {
        return hn::Set(d, rows[Elements::kRowsTogether ? (k + next) * kRows + r : r * tile.row_stride + k + next]);
      };
      // Whichever are fewer wait in registers.
      if constexpr (kRows < kWidth) {
        constexpr bool kKeepsWeight = kRows > 1 && kRows * (kWidth + 1) + 1 < kRegisters;
        hn::Vec<decltype(d)> factors[kRows];
        RNNSERVE_UNROLL
        for (size_t r = 0; r < kRows; ++r) factors[r] = factor(r);
        RNNSERVE_UNROLL
        for (size_t v = 0; v < kWidth; ++v) {
          const auto weight = kKeepsWeight ? InRegister(column(v)) : column(v);
          RNNSERVE_UNROLL
          for (size_t r = 0; r < kRows; ++r) sum[r][v] = hn::MulAdd(factors[r], weight, sum[r][v]);
        }
      } else {
        hn::Vec<decltype(d)> columns[kWidth];
        RNNSERVE_UNROLL
        for (size_t v = 0; v < kWidth; ++v) columns[v] = column(v);
        RNNSERVE_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
          const auto one = factor(r);
          RNNSERVE_UNROLL
          for (size_t v = 0; v < kWidth; ++v) sum[r][v] = hn::MulAdd(one, columns[v], sum[r][v]);
        }
      }
    };
    // Two at a time: with AVX2, eight rows of H = 256 take 0.78 of the time of one at a time. One row of an LSTM of
    // H = 256 takes 0.9 of that of two at a time.
    const size_t end = std::min(k + kChain, tile.depth);
    if constexpr (Elements::kRowsTogether) {
      for (; k + 4 <= end; k += 4) {
        for (int line = 0; line < kAhead; ++line, next_line += kLineBytes) __builtin_prefetch(next_line, 0, 2);
        RNNSERVE_UNROLL
        for (size_t next = 0; next < 4; ++next, weights += tile.term_stride) {
          add_term(Elements::kPaired && next % 2 == 1 ? weights - tile.term_stride : weights, next);
        }
      }
    }
    if constexpr (kRows > 1 || Elements::kPaired) {
      for (; k + 2 <= end; k += 2, weights += tile.term_stride) {
        add_term(weights, 0);
        weights += tile.term_stride;
        add_term(Elements::kPaired ? weights - tile.term_stride : weights, 1);
      }
    }
    for (; k < end; ++k, weights += tile.term_stride) add_term(weights, 0);
    AddTo(d, start, start_stride, sum, tile.target, tile.target_stride);
    start = tile.target;
    start_stride = tile.target_stride;
  } while (k < tile.depth);
}

// The same of whole numbers, four terms at a time.
template <size_t kRows, size_t kLines, int kAhead>
HWY_INLINE void MultiplyTile(const Tile<float, Int8Elements>& tile) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> whole;
  constexpr size_t kWidth = kLines * kVectors<float>;
  hn::Vec<decltype(whole)> sum[kRows][kWidth];
  const int8_t* HWY_RESTRICT weights = tile.weights;
  const float* start = tile.start;
  size_t start_stride = tile.start_stride;
  size_t k = 0;
  do {
    Clear(whole, sum);
    const auto add_terms = [&](size_t half) HWY_ATTR {
      TwoWeights<decltype(whole)> column[kWidth];
      RNNSERVE_UNROLL
      for (size_t v = 0; v < kWidth; ++v) {
        const int8_t* const words = weights + LineOf<float>(v) * tile.line_stride;
        column[v] = {whole, words + v % kVectors<float> * 4 * kLanes<float>, half};
      }
      RNNSERVE_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        const int32_t terms = TermsAt(tile.rows + r * tile.row_stride, k + 2 * half);
        RNNSERVE_UNROLL
        for (size_t v = 0; v < kWidth; ++v) sum[r][v] = column[v].AddProducts(whole, terms, sum[r][v]);
      }
    };
    const size_t first = k, end = std::min(k + kScaledTerms, tile.depth);
    for (; k < end; k += 4, weights += 4 * kLine<float>) {
      add_terms(0);
      add_terms(1);
    }
    RNNSERVE_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const TermScale* const scales = ScalesIn(tile.rows + r * tile.row_stride, tile.depth);
      const auto row_scale = hn::Set(d, tile.depth == 0 ? 0 : scales[first / kScaledTerms].scale);
      RNNSERVE_UNROLL
      for (size_t v = 0; v < kWidth; ++v) {
        const auto before = hn::Load(d, start + r * start_stride + v * kLanes<float>);
        const auto scale = hn::Mul(row_scale, hn::Load(d, tile.scales + v * kLanes<float>));
        hn::Store(hn::MulAdd(scale, hn::ConvertTo(d, sum[r][v]), before), d,
                  tile.target + r * tile.target_stride + v * kLanes<float>);
      }
    }
    start = tile.target;
    start_stride = tile.target_stride;
  } while (k < tile.depth);
}

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
