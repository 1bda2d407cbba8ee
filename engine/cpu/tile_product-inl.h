// SPDX-License-Identifier: Apache-2.0
// The way of a product through tiles: those of the CPU (tile_product.cc), or of tests, made of plain code.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "engine/cpu/tile_product.h"

// Otherwise g++ keeps what the loops over tiles go by in memory: one row of bfloat16 takes 1.15 times as long.
#define RNNSERVE_INLINE ABSL_ATTRIBUTE_ALWAYS_INLINE

namespace rnnserve::cpu {

// Rows, and bytes of a row, of each tile: as the CPU takes them.
struct alignas(kLineBytes) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == kLineBytes);

// Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 weights: two tiles of rows times two lines, whose weights are read once
// for both, or one times up to four; of parts, one tile of rows times two lines has them otherwise (TakePartsOfOne).
// What is loaded for once passes by the nearest cache: weights, or, where `kKeepsWeights`, rows.
template <class Tiles, size_t kParts, bool kKeepsWeights = false>
class TileMultiplier {
 public:
  explicit TileMultiplier(const TileProduct& product)
      : product_(product),
        row_bytes_(TileRowBytes(kParts, product.depth)),
        blocks_(TilesOf(product.depth)),
        line_bytes_(kParts * blocks_ * kTileBytes) {}

  void Run() {
    if (product_.meanwhile != nullptr) product_.meanwhile->Expect(Passes());
    const size_t at_once = kKeepsWeights ? 2 : product_.lines;
    for (size_t line = 0; line < product_.lines; line += at_once) {
      TakeRows(line, std::min(line + at_once, product_.lines));
    }
    Tiles::Release();
  }

 private:
  static constexpr size_t kLinesOfOne = kParts == 1 && !kKeepsWeights ? 4 : 2;  // of one tile of rows

  // How often Run calls Pass.
  size_t Passes() const {
    const auto of_lines = [this](size_t at_once) { return (product_.lines + at_once - 1) / at_once * blocks_; };
    const size_t rest = product_.count % (2 * kTileRows);
    const size_t twos = product_.count / (2 * kTileRows) + (rest > kTileRows ? 1 : 0);
    const size_t ones = rest > 0 && rest <= kTileRows ? 1 : 0;
    return twos * of_lines(2) * (kParts == 1 ? 1 : 4) + ones * of_lines(kLinesOfOne) * kParts;
  }
  RNNSERVE_INLINE void Pass() const {
    if (product_.meanwhile != nullptr) product_.meanwhile->Pass();
  }

  template <size_t kCount, class Each>
  RNNSERVE_INLINE static void ForEach(const Each& each) {
    [&]<size_t... k>(std::index_sequence<k...>) RNNSERVE_INLINE { (each.template operator()<k>(), ...); }
    (std::make_index_sequence<kCount>());
  }

  void TakeRows(size_t first_line, size_t end) {
    for (size_t first = 0, rows; first < product_.count; first += rows) {
      rows = std::min(product_.count - first, 2 * kTileRows);
      if (rows != std::exchange(shaped_, rows)) Shape(rows);
      for (size_t line = first_line; line < end;) {
        line += rows > kTileRows ? TakeUpTo<2, 2>(first, rows, line, end - line)
                                 : TakeUpTo<1, kLinesOfOne>(first, rows, line, end - line);
      }
    }
  }

  static void Shape(size_t rows) {
    const size_t upper = std::min(rows, kTileRows), lower = rows > kTileRows ? rows - kTileRows : upper;
    TileShapes shapes;
    std::fill_n(shapes.row_bytes, 8, static_cast<uint16_t>(kLineBytes));
    std::fill_n(shapes.rows, 8, static_cast<uint8_t>(kTileRows));
    for (const size_t tile : {0, 1, 4}) shapes.rows[tile] = static_cast<uint8_t>(upper);
    for (const size_t tile : {2, 3, 5}) shapes.rows[tile] = static_cast<uint8_t>(lower);
    if (kParts == kBrainParts && rows <= kTileRows) shapes.rows[6] = static_cast<uint8_t>(rows);
    Tiles::Shape(shapes);
  }

  // Returns how many of `lines` it took.
  template <size_t kRowTiles, size_t kLines>
  size_t TakeUpTo(size_t first, size_t rows, size_t line, size_t lines) const {
    if constexpr (kLines > 1) {
      if (lines < kLines) return TakeUpTo<kRowTiles, kLines - 1>(first, rows, line, lines);
    }
    if constexpr (kParts == kBrainParts && kRowTiles == 1) {
      TakePartsOfOne<kLines>(first, rows, line);
    } else {
      Take<kRowTiles, kLines>(first, rows, line);
    }
    return kLines;
  }

  template <size_t kTile>
  RNNSERVE_INLINE void LoadRows(const std::byte* at) const {
    kKeepsWeights ? Tiles::template LoadOnce<kTile>(at, row_bytes_) : Tiles::template Load<kTile>(at, row_bytes_);
  }
  template <size_t kTile>
  RNNSERVE_INLINE void LoadWeights(const std::byte* block, size_t of_line, size_t part) const {
    const std::byte* const at = block + of_line * line_bytes_ + part * kTileBytes;
    kKeepsWeights ? Tiles::template Load<kTile>(at, kLineBytes) : Tiles::template LoadOnce<kTile>(at, kLineBytes);
  }

  // Calls each(rows, weights), of all terms block by block.
  template <class Each>
  RNNSERVE_INLINE void ForBlocks(size_t first, size_t line, const Each& each) const {
    const std::byte* rows = product_.rows + first * row_bytes_;
    const std::byte* weights = product_.weights + line * line_bytes_;
    for (size_t block = 0; block < blocks_; ++block) {
      each(rows, weights);
      rows += kParts * kLineBytes;
      weights += kParts * kTileBytes;
    }
  }

  RNNSERVE_INLINE const float* Start(size_t row, size_t line) const {
    return product_.start + row * product_.start_stride + line * kLine<float>;
  }
  RNNSERVE_INLINE float* Target(size_t row, size_t line) const {
    return product_.target + row * product_.target_stride + line * kLine<float>;
  }
  // target = start + sums. Parts keep what multiply-adds of float32 would lose only if a start value, which may be
  // large, is added last.
  void AddStart(size_t row, size_t rows, size_t line, const float* sums) const {
    for (size_t k = 0; k < std::min(rows, kTileRows); ++k) {
      Tiles::AddLine(Start(row + k, line), sums + k * kLine<float>, Target(row + k, line));
    }
  }

  // The small products of parts have sums of their own, which are rounded at their size; 2 and 3 hold those. One tile
  // of rows has its parts in three tiles, and the lines take turns in the last one.
  static constexpr size_t kSmall = 2, kRows = 4, kWeights = 7;
  template <size_t kLines>
  void TakePartsOfOne(size_t first, size_t rows, size_t line) const {
    static_assert(kLines <= kSmall);
    ForEach<kLines>([]<size_t v>()
                        RNNSERVE_INLINE { Tiles::template Clear<v>(), Tiles::template Clear<kSmall + v>(); });
    ForBlocks(first, line, [&](const std::byte* of_rows, const std::byte* weights) RNNSERVE_INLINE {
      ForEach<kBrainParts>([&]<size_t part>() RNNSERVE_INLINE { LoadRows<kRows + part>(of_rows + part * kLineBytes); });
      ForEach<kBrainParts>([&]<size_t part>() RNNSERVE_INLINE {
        ForEach<kLines>([&]<size_t v>() RNNSERVE_INLINE {
          LoadWeights<kWeights>(weights, v, part);
          ForEach<kBrainParts - part>([]<size_t of_row>() RNNSERVE_INLINE {
            constexpr size_t kSum = part + of_row == 0 ? v : kSmall + v;
            Tiles::template AddProduct<kSum, kRows + of_row, kWeights>();
          });
        });
        Pass();
      });
    });
    ForEach<kLines>([&]<size_t v>() RNNSERVE_INLINE {
      alignas(kLineBytes) float sums[kTileRows * kLine<float>], small[kTileRows * kLine<float>];
      Tiles::template Store<v>(sums, kLineBytes);
      Tiles::template Store<kSmall + v>(small, kLineBytes);
      for (size_t k = 0; k < rows; ++k) {
        float* const sum = sums + k * kLine<float>;
        Tiles::AddLine(small + k * kLine<float>, sum, AddsLast() ? sum : Target(first + k, line + v));
      }
      if (AddsLast()) AddStart(first, rows, line + v, sums);
    });
  }

  template <size_t kRowTiles, size_t kLines>
  void Take(size_t first, size_t rows, size_t line) const {
    Begin<kRowTiles, kLines>(first, line);
    if constexpr (kParts == kBrainParts) {
      // The small products first: the sums are rounded at the size of the whole once for 32 terms only.
      ForBlocks(first, line, [this](const std::byte* of_rows, const std::byte* weights) RNNSERVE_INLINE {
        AddSmall<kRowTiles, kLines>(of_rows, weights);
      });
    }
    ForBlocks(first, line, [this](const std::byte* of_rows, const std::byte* weights) RNNSERVE_INLINE {
      LoadRowTiles<kRowTiles>(of_rows, 0);
      AddLines<kRowTiles, kLines>(weights, 0);
    });
    End<kRowTiles, kLines>(first, rows, line);
  }

  // The tile with the sums of a tile of rows and a line.
  static constexpr size_t Sum(size_t row_tile, size_t of_line) { return 2 * row_tile + of_line; }

  template <size_t kRowTiles, size_t kLines, class Each>
  RNNSERVE_INLINE static void ForSums(const Each& each) {
    ForEach<kRowTiles>([&]<size_t r>() RNNSERVE_INLINE {
      ForEach<kLines>([&]<size_t v>() RNNSERVE_INLINE { each.template operator()<r, v>(); });
    });
  }

  bool AddsLast() const { return kParts == kBrainParts && !product_.starts_at_zero; }

  template <size_t kRowTiles, size_t kLines>
  RNNSERVE_INLINE void Begin(size_t first, size_t line) const {
    ForSums<kRowTiles, kLines>([&]<size_t r, size_t v>() RNNSERVE_INLINE {
      if (AddsLast()) return Tiles::template Clear<Sum(r, v)>();
      const auto* const start = reinterpret_cast<const std::byte*>(Start(first + r * kTileRows, line + v));
      Tiles::template Load<Sum(r, v)>(start, product_.start_stride * sizeof(float));
    });
  }

  template <size_t kRowTiles, size_t kLines>
  RNNSERVE_INLINE void End(size_t first, size_t rows, size_t line) const {
    ForSums<kRowTiles, kLines>([&]<size_t r, size_t v>() RNNSERVE_INLINE {
      const size_t row = first + r * kTileRows;
      if (!AddsLast()) {
        return Tiles::template Store<Sum(r, v)>(Target(row, line + v), product_.target_stride * sizeof(float));
      }
      alignas(kLineBytes) float sums[kTileRows * kLine<float>];
      Tiles::template Store<Sum(r, v)>(sums, kLineBytes);
      AddStart(row, rows - r * kTileRows, line + v, sums);
    });
  }

  template <size_t kRowTiles>
  RNNSERVE_INLINE void LoadRowTiles(const std::byte* rows, size_t part) const {
    ForEach<kRowTiles>([&]<size_t r>()
                           RNNSERVE_INLINE { LoadRows<4 + r>(rows + r * kTileRows * row_bytes_ + part * kLineBytes); });
  }
  template <size_t kRowTiles, size_t v>
  RNNSERVE_INLINE static void AddLine() {
    ForEach<kRowTiles>([]<size_t r>() RNNSERVE_INLINE { Tiles::template AddProduct<Sum(r, v), 4 + r, 6 + v % 2>(); });
  }
  template <size_t kRowTiles, size_t kLines>
  RNNSERVE_INLINE void AddLines(const std::byte* weights, size_t part) const {
    ForEach<kLines>([&]<size_t v>() RNNSERVE_INLINE {
      LoadWeights<6 + v % 2>(weights, v, part);
      AddLine<kRowTiles, v>();
    });
    Pass();
  }
  // Times the weights that were loaded last.
  template <size_t kRowTiles, size_t kLines>
  RNNSERVE_INLINE static void AddLinesAgain() {
    ForEach<kLines>([]<size_t v>() RNNSERVE_INLINE { AddLine<kRowTiles, v>(); });
  }

  template <size_t kRowTiles, size_t kLines>
  RNNSERVE_INLINE void AddSmall(const std::byte* rows, const std::byte* weights) const {
    static_assert(kLines <= 2);
    LoadRowTiles<kRowTiles>(rows, 2);
    AddLines<kRowTiles, kLines>(weights, 0);
    LoadRowTiles<kRowTiles>(rows, 1);
    AddLinesAgain<kRowTiles, kLines>();
    AddLines<kRowTiles, kLines>(weights, 1);
    LoadRowTiles<kRowTiles>(rows, 0);
    AddLinesAgain<kRowTiles, kLines>();
    AddLines<kRowTiles, kLines>(weights, 2);
  }

  const TileProduct& product_;
  size_t row_bytes_;
  size_t blocks_;
  size_t line_bytes_;
  size_t shaped_ = 0;  // rows
};

}  // namespace rnnserve::cpu
