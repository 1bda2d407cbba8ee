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
    // Of the sum of a tile of rows and a line.
    constexpr auto kSum = [](size_t row_tile, size_t of_line) { return 2 * row_tile + of_line; };
    const auto for_sums = [](const auto& each) {
      ForEach<kRowTiles>([&]<size_t r>() { ForEach<kLines>([&]<size_t v>() { each.template operator()<r, v>(); }); });
    };
    const std::byte* of_rows = product_.rows + first * row_bytes_;
    const std::byte* weights = product_.weights + line * line_bytes_;
    const float* const start = product_.start + first * product_.start_stride + line * kLine<float>;
    // Parts keep what multiply-adds of float32 would lose only if a start value, which may be large, is added last.
    const bool adds_last = kParts == kBrainParts && !product_.starts_at_zero;
    for_sums([&]<size_t r, size_t v>() {
      if (adds_last) return Tiles::template Clear<kSum(r, v)>();
      const float* const own = start + r * kTileRows * product_.start_stride + v * kLine<float>;
      Tiles::template Load<kSum(r, v)>(reinterpret_cast<const std::byte*>(own), product_.start_stride * sizeof(float));
    });
    const auto load_rows = [&](size_t part) {
      ForEach<kRowTiles>([&]<size_t r>() {
        Tiles::template Load<4 + r>(of_rows + r * kTileRows * row_bytes_ + part * kLineBytes, row_bytes_);
      });
    };
    const auto multiply_line = [&]<size_t v>() {
      ForEach<kRowTiles>([&]<size_t r>() { Tiles::template AddProduct<kSum(r, v), 4 + r, 6 + v % 2>(); });
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
    float* const target = product_.target + first * product_.target_stride + line * kLine<float>;
    for_sums([&]<size_t r, size_t v>() {
      float* const own = target + r * kTileRows * product_.target_stride + v * kLine<float>;
      if (!adds_last) return Tiles::template Store<kSum(r, v)>(own, product_.target_stride * sizeof(float));
      alignas(kLineBytes) float sums[kTileRows * kLine<float>];
      Tiles::template Store<kSum(r, v)>(sums, kLineBytes);
      const float* const added = start + r * kTileRows * product_.start_stride + v * kLine<float>;
      const size_t count = std::min(rows - r * kTileRows, kTileRows);
      for (size_t row = 0; row < count; ++row) {
        Tiles::AddLine(added + row * product_.start_stride, sums + row * kLine<float>,
                       own + row * product_.target_stride);
      }
    });
  }

  const TileProduct& product_;
  size_t row_bytes_;
  size_t blocks_;
  size_t line_bytes_;
};

}  // namespace rnnserve::cpu
