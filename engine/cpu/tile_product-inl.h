// SPDX-License-Identifier: Apache-2.0
// The way of a product through tiles: those of the CPU (tile_product.cc), or of tests, made of plain code.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/cpu/tile_product.h"

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
// for both, or one times up to four. Four sums in turns hide the 52 cycles that one product takes.
template <class Tiles, size_t kParts>
class TileMultiplier {
 public:
  explicit TileMultiplier(const TileProduct& product)
      : product_(product),
        row_bytes_(TileRowBytes(kParts, product.depth)),
        blocks_(TilesOf(product.depth)),
        line_bytes_(kParts * blocks_ * kTileBytes) {}

  void Run() {
    size_t shaped = 0;
    for (size_t first = 0, rows; first < product_.count; first += rows) {
      rows = std::min(product_.count - first, 2 * kTileRows);
      if (rows != shaped) Shape(rows);
      shaped = rows;
      for (size_t line = 0; line < product_.lines;) {
        const size_t lines = product_.lines - line;
        line += rows > kTileRows ? TakeUpTo<2, 2>(first, rows, line, lines) : TakeUpTo<1, 4>(first, rows, line, lines);
      }
    }
    Tiles::Release();
  }

 private:
  template <size_t kCount, class Each>
  static void ForEach(const Each& each) {
    [&]<size_t... k>(std::index_sequence<k...>) { (each.template operator()<k>(), ...); }
    (std::make_index_sequence<kCount>());
  }

  static void Shape(size_t rows) {
    const size_t upper = std::min(rows, kTileRows), lower = rows > kTileRows ? rows - kTileRows : upper;
    TileShapes shapes;
    std::fill_n(shapes.row_bytes, 8, static_cast<uint16_t>(kLineBytes));
    std::fill_n(shapes.rows, 8, static_cast<uint8_t>(kTileRows));
    for (const size_t tile : {0, 1, 4}) shapes.rows[tile] = static_cast<uint8_t>(upper);
    for (const size_t tile : {2, 3, 5}) shapes.rows[tile] = static_cast<uint8_t>(lower);
    Tiles::Shape(shapes);
  }

  // Returns how many of `lines` it took.
  template <size_t kRowTiles, size_t kLines>
  size_t TakeUpTo(size_t first, size_t rows, size_t line, size_t lines) const {
    if constexpr (kLines > 1) {
      if (lines < kLines) return TakeUpTo<kRowTiles, kLines - 1>(first, rows, line, lines);
    }
    Take<kRowTiles, kLines>(first, rows, line);
    return kLines;
  }

  template <size_t kRowTiles, size_t kLines>
  void Take(size_t first, size_t rows, size_t line) const {
    Begin<kRowTiles, kLines>(first, line);
    Multiply<kRowTiles, kLines>(first, line);
    End<kRowTiles, kLines>(first, rows, line);
  }

  // The tile with the sums of a tile of rows and a line.
  static constexpr size_t Sum(size_t row_tile, size_t of_line) { return 2 * row_tile + of_line; }

  template <size_t kRowTiles, size_t kLines, class Each>
  static void ForSums(const Each& each) {
    ForEach<kRowTiles>([&]<size_t r>() { ForEach<kLines>([&]<size_t v>() { each.template operator()<r, v>(); }); });
  }

  // Parts keep what multiply-adds of float32 would lose only if a start value, which may be large, is added last.
  bool AddsLast() const { return kParts == kBrainParts && !product_.starts_at_zero; }
  const float* Start(size_t row, size_t line) const {
    return product_.start + row * product_.start_stride + line * kLine<float>;
  }

  template <size_t kRowTiles, size_t kLines>
  void Begin(size_t first, size_t line) const {
    ForSums<kRowTiles, kLines>([&]<size_t r, size_t v>() {
      if (AddsLast()) return Tiles::template Clear<Sum(r, v)>();
      const auto* const start = reinterpret_cast<const std::byte*>(Start(first + r * kTileRows, line + v));
      Tiles::template Load<Sum(r, v)>(start, product_.start_stride * sizeof(float));
    });
  }

  template <size_t kRowTiles, size_t kLines>
  void End(size_t first, size_t rows, size_t line) const {
    ForSums<kRowTiles, kLines>([&]<size_t r, size_t v>() {
      const size_t row = first + r * kTileRows;
      float* const target = product_.target + row * product_.target_stride + (line + v) * kLine<float>;
      if (!AddsLast()) return Tiles::template Store<Sum(r, v)>(target, product_.target_stride * sizeof(float));
      alignas(kLineBytes) float sums[kTileRows * kLine<float>];
      Tiles::template Store<Sum(r, v)>(sums, kLineBytes);
      for (size_t k = 0; k < std::min(rows - r * kTileRows, kTileRows); ++k) {
        Tiles::AddLine(Start(row + k, line + v), sums + k * kLine<float>, target + k * product_.target_stride);
      }
    });
  }

  template <size_t kRowTiles, size_t kLines>
  void Multiply(size_t first, size_t line) const {
    const std::byte* of_rows = product_.rows + first * row_bytes_;
    const std::byte* weights = product_.weights + line * line_bytes_;
    const auto load_rows = [&](size_t part) {
      ForEach<kRowTiles>([&]<size_t r>() {
        Tiles::template Load<4 + r>(of_rows + r * kTileRows * row_bytes_ + part * kLineBytes, row_bytes_);
      });
    };
    const auto multiply_line = [&]<size_t v>() {
      ForEach<kRowTiles>([&]<size_t r>() { Tiles::template AddProduct<Sum(r, v), 4 + r, 6 + v % 2>(); });
    };
    const auto load_line = [&]<size_t part, size_t v>() {
      Tiles::template LoadOnce<6 + v % 2>(weights + v * line_bytes_ + part * kTileBytes, kLineBytes);
    };
    // Weights that were multiplied last are still there, if they have tiles of their own.
    const auto multiply = [&]<size_t part, bool is_last>() {
      if constexpr (kLines > 2) {
        ForEach<kLines>([&]<size_t v>() {
          load_line.template operator()<part, v>();
          multiply_line.template operator()<v>();
        });
      } else {
        if constexpr (!is_last) ForEach<kLines>([&]<size_t v>() { load_line.template operator()<part, v>(); });
        ForEach<kLines>(multiply_line);
      }
    };
    const auto for_blocks = [&](const auto& each) {
      const std::byte* const rows_begin = of_rows;
      const std::byte* const weights_begin = weights;
      for (size_t block = 0; block < blocks_; ++block) {
        each();
        of_rows += kParts * kLineBytes;
        weights += kParts * kTileBytes;
      }
      of_rows = rows_begin, weights = weights_begin;
    };
    // The small products first: the sums are rounded at the size of the whole once for 32 terms only.
    if constexpr (kParts == kBrainParts) {
      for_blocks([&] {
        load_rows(2);
        multiply.template operator()<0, false>();
        load_rows(1);
        multiply.template operator()<0, true>();
        multiply.template operator()<1, false>();
        load_rows(0);
        multiply.template operator()<1, true>();
        multiply.template operator()<2, false>();
      });
    }
    for_blocks([&] {
      load_rows(0);
      multiply.template operator()<0, false>();
    });
  }

  const TileProduct& product_;
  size_t row_bytes_;
  size_t blocks_;
  size_t line_bytes_;
};

}  // namespace rnnserve::cpu
