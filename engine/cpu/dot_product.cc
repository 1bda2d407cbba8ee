// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/dot_product.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/cpu/narrow_rows.h"
#include "engine/cpu/tile_product.h"
#include "engine/cpu/unroll.h"
#include "engine/instruction_set.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64
#include <immintrin.h>

HWY_PUSH_ATTRIBUTES("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni,avx512bf16")
namespace rnnserve::cpu {
namespace {

// Sums in registers: 32 of them hold the factors and a column of weights besides. Eight lines of one row at once, which
// registers would allow, take up to 1.13 times as long as four and four.
constexpr size_t kMostSums = 24, kMostRows = 6;

struct Tile {
  const std::byte* rows;  // narrow
  size_t row_bytes;
  const std::byte* weights;
  size_t line_bytes;
  size_t depth;         // at least 1
  const float* scales;  // of int8: of the columns
  const float* start;
  size_t start_stride;
  float* target;
  size_t target_stride;
};

HWY_INLINE __m512i Factor(const std::byte* at) {
  int32_t word;
  std::memcpy(&word, at, sizeof word);
  return _mm512_set1_epi32(word);
}

// Two terms at a time.
struct Brain {
  static constexpr size_t kSums = 1;  // of a row and a line

  template <size_t kRows, size_t kLines>
  static HWY_INLINE void Multiply(const Tile& tile) {
    __m512 sum[kRows][kLines];
    RNNSERVE_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      RNNSERVE_UNROLL
      for (size_t v = 0; v < kLines; ++v) sum[r][v] = _mm512_setzero_ps();
    }
    const std::byte* weights = tile.weights;
    const std::byte* rows = tile.rows;
    const std::byte* const end = rows + (tile.depth + 1) / 2 * 4;
    do {
      __m512i column[kLines];
      RNNSERVE_UNROLL
      for (size_t v = 0; v < kLines; ++v) column[v] = _mm512_load_si512(weights + v * tile.line_bytes);
      RNNSERVE_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        const auto factor = reinterpret_cast<__m512bh>(Factor(rows + r * tile.row_bytes));
        RNNSERVE_UNROLL
        for (size_t v = 0; v < kLines; ++v) {
          sum[r][v] = _mm512_dpbf16_ps(sum[r][v], factor, reinterpret_cast<__m512bh>(column[v]));
        }
      }
      rows += 4;
      weights += kLineBytes;
    } while (rows != end);
    RNNSERVE_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      RNNSERVE_UNROLL
      for (size_t v = 0; v < kLines; ++v) {
        const __m512 start = _mm512_load_ps(tile.start + r * tile.start_stride + v * kLine<float>);
        _mm512_store_ps(tile.target + r * tile.target_stride + v * kLine<float>, _mm512_add_ps(start, sum[r][v]));
      }
    }
  }
};

// Not the intrinsic: GCC 12 copies `sum` to another register and to memory for it.
HWY_INLINE void AddProducts(__m512i weights, __m512i factors, __m512i& sum) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(factors));
}

// Four terms at a time, their upper and their lower bytes.
struct Bytes {
  static constexpr size_t kSums = 2;

  template <size_t kRows, size_t kLines>
  static HWY_INLINE void Multiply(const Tile& tile) {
    const std::byte* weights = tile.weights;
    const float* start = tile.start;
    size_t start_stride = tile.start_stride;
    for (size_t k = 0; k < tile.depth; k += kScaledTerms) {
      __m512i upper[kRows][kLines], lower[kRows][kLines];
      RNNSERVE_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        RNNSERVE_UNROLL
        for (size_t v = 0; v < kLines; ++v) upper[r][v] = lower[r][v] = _mm512_setzero_si512();
      }
      const std::byte* rows = tile.rows + 2 * k;
      const std::byte* const end = rows + (std::min(kScaledTerms, tile.depth - k) + 3) / 4 * 4;
      do {
        __m512i column[kLines];
        RNNSERVE_UNROLL
        for (size_t v = 0; v < kLines; ++v) column[v] = _mm512_load_si512(weights + v * tile.line_bytes);
        RNNSERVE_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
          const __m512i high = Factor(rows + r * tile.row_bytes);
          const __m512i low = Factor(rows + r * tile.row_bytes + kScaledTerms);
          RNNSERVE_UNROLL
          for (size_t v = 0; v < kLines; ++v) {
            AddProducts(column[v], high, upper[r][v]);
            AddProducts(column[v], low, lower[r][v]);
          }
        }
        rows += 4;
        weights += kLineBytes;
      } while (rows != end);
      RNNSERVE_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        const TermScale terms = ScalesIn(tile.rows + r * tile.row_bytes, tile.depth)[k / kScaledTerms];
        RNNSERVE_UNROLL
        for (size_t v = 0; v < kLines; ++v) {
          const __m512i sum = _mm512_sub_epi32(_mm512_add_epi32(_mm512_slli_epi32(upper[r][v], 8), lower[r][v]),
                                               _mm512_set1_epi32(terms.offset));
          const __m512 scale =
              _mm512_mul_ps(_mm512_set1_ps(terms.scale), _mm512_load_ps(tile.scales + v * kLine<float>));
          const __m512 before = _mm512_load_ps(start + r * start_stride + v * kLine<float>);
          _mm512_store_ps(tile.target + r * tile.target_stride + v * kLine<float>,
                          _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sum), before));
        }
      }
      start = tile.target;
      start_stride = tile.target_stride;
    }
  }
};

template <class Kind, size_t kRows>
constexpr size_t kMostLinesAtOnce = std::min(kPanelLines, kMostSums / kRows / Kind::kSums);

template <class Kind, size_t kRows, size_t kLines>
HWY_NOINLINE void TakeLines(const Tile& tile) {
  Kind::template Multiply<kRows, kLines>(tile);
}

// kLines of them or fewer.
template <class Kind, size_t kRows, size_t kLines>
void TakeUpTo(const Tile& tile, size_t lines) {
  if constexpr (kLines > 0) {
    if (lines == kLines) return TakeLines<Kind, kRows, kLines>(tile);
    TakeUpTo<Kind, kRows, kLines - 1>(tile, lines);
  }
}

template <class Kind, size_t kRows>
void MultiplyRows(Tile tile, size_t lines) {
  constexpr size_t kMost = kMostLinesAtOnce<Kind, kRows>;
  while (lines > 0) {
    const size_t taken = lines / ((lines + kMost - 1) / kMost);
    TakeUpTo<Kind, kRows, kMost>(tile, taken);
    lines -= taken;
    tile.weights += taken * tile.line_bytes;
    if (tile.scales != nullptr) tile.scales += taken * kLine<float>;
    tile.start += taken * kLine<float>;
    tile.target += taken * kLine<float>;
  }
}

template <class Kind>
void MultiplyBlock(size_t rows, const Tile& tile, size_t lines) {
  switch (rows) {
    case 1:
      return MultiplyRows<Kind, 1>(tile, lines);
    case 2:
      return MultiplyRows<Kind, 2>(tile, lines);
    case 3:
      return MultiplyRows<Kind, 3>(tile, lines);
    case 4:
      return MultiplyRows<Kind, 4>(tile, lines);
    case 5:
      return MultiplyRows<Kind, 5>(tile, lines);
    default:
      return MultiplyRows<Kind, 6>(tile, lines);
  }
}

template <class Kind>
void MultiplyAll(const Product<float>& product, Tile tile) {
  size_t left = product.count;
  for (size_t blocks = (left + kMostRows - 1) / kMostRows; blocks > 0; --blocks) {
    const size_t rows = (left + blocks - 1) / blocks;
    MultiplyBlock<Kind>(rows, tile, product.lines);
    left -= rows;
    tile.rows += rows * tile.row_bytes;
    tile.start += rows * tile.start_stride;
    tile.target += rows * tile.target_stride;
  }
}

// Up to 128 terms.
TermScale NarrowToBytes(const float* row, size_t count, std::byte* target) {
  // As bits, numbers above zero are in order, and infinities and NaN are above them all.
  const __m512i no_sign = _mm512_set1_epi32(0x7fffffff);
  __m512i largest = _mm512_setzero_si512();
  for (size_t k = 0; k < count; k += kLine<float>) {
    largest =
        _mm512_max_epi32(largest, _mm512_and_si512(no_sign, _mm512_maskz_loadu_epi32(Present(count - k), row + k)));
  }
  const int32_t bits = _mm512_reduce_max_epi32(largest);
  float most;
  std::memcpy(&most, &bits, sizeof most);
  const bool is_finite = most <= std::numeric_limits<float>::max();
  const __m512 factor = _mm512_set1_ps(!is_finite || most < kLeastRow ? 0 : kMostTerm / most);
  // Weights k, k + 2, k + 1, k + 3 lie in a word.
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  __m512i all = _mm512_setzero_si512();
  for (size_t k = 0; k < count; k += kLine<float>) {
    const __m512i term = _mm512_cvtps_epi32(_mm512_mul_ps(factor, _mm512_maskz_loadu_ps(Present(count - k), row + k)));
    all = _mm512_add_epi32(all, term);
    const __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(term, _mm512_set1_epi32(128)), 8);
    auto* const to = reinterpret_cast<__m128i*>(target + k);
    _mm_store_si128(to, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(upper), order));
    _mm_store_si128(to + kScaledTerms / sizeof *to, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(term), order));
  }
  if (!is_finite) return {std::numeric_limits<float>::quiet_NaN(), 0};
  return {most < kLeastRow ? 0 : most / kMostTerm, 128 * _mm512_reduce_add_epi32(all)};
}

size_t RowBytes(WeightType type, size_t depth) {
  return type == WeightType::kInt8 ? NarrowInt8Bytes(depth) : TileRowBytes(1, depth);
}

// Nothing to add to it.
void CopyStart(const Product<float>& product) {
  for (size_t row = 0; row < product.count; ++row) {
    std::copy_n(product.start.row(row), product.lines * kLine<float>, product.target.row(row));
  }
}

}  // namespace

void NarrowForDotProduct(size_t depth, size_t count, Rows<const float> rows, std::byte* target) {
  for (size_t row = 0; row < count; ++row, target += NarrowInt8Bytes(depth)) {
    for (size_t k = 0; k < depth; k += kScaledTerms) {
      ScalesIn(target, depth)[k / kScaledTerms] =
          NarrowToBytes(rows.row(row) + k, std::min(kScaledTerms, depth - k), target + 2 * k);
    }
  }
}

void MultiplyByDotProduct(const Product<float>& product) {
  const PackedMatrix<float>& weights = *product.weights;
  if (weights.depth() == 0) return CopyStart(product);
  const bool is_int8 = weights.type() == WeightType::kInt8;
  const size_t width = is_int8 ? 1 : 2;
  const Tile tile = {.rows = product.rows.prepared,
                     .row_bytes = RowBytes(weights.type(), weights.depth()),
                     .weights = weights.line<std::byte>(0) + product.first_line * weights.line_stride() * width,
                     .line_bytes = weights.line_stride() * width,
                     .depth = weights.depth(),
                     .scales = is_int8 ? weights.scales(product.first_line) : nullptr,
                     .start = product.start.data,
                     .start_stride = product.start.stride,
                     .target = product.target.data,
                     .target_stride = product.target.stride};
  if (is_int8) return MultiplyAll<Bytes>(product, tile);
  MultiplyAll<Brain>(product, tile);
}

}  // namespace rnnserve::cpu
HWY_POP_ATTRIBUTES

namespace rnnserve::cpu {
namespace {

bool HasAll() {
  return MaxInstructionSet() == InstructionSet::kAll && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

bool HasDotProduct(WeightType type) {
  static const bool has_bytes = HasAll() && __builtin_cpu_supports("avx512vnni");
  static const bool has_brain = has_bytes && __builtin_cpu_supports("avx512bf16");
  return type == WeightType::kInt8 ? has_bytes : type == WeightType::kBFloat16 && has_brain;
}

}  // namespace rnnserve::cpu
#else
namespace rnnserve::cpu {

bool HasDotProduct(WeightType) { return false; }
void NarrowForDotProduct(size_t, size_t, Rows<const float>, std::byte*) {}
void MultiplyByDotProduct(const Product<float>&) {}

}  // namespace rnnserve::cpu
#endif
