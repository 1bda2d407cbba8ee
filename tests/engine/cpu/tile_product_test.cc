// SPDX-License-Identifier: Apache-2.0
// Products by tiles, with tiles made of plain code: the way through them is the same on a CPU that has none. Where the
// CPU has tiles, theirs are compared with these.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/cell_inputs.h"
#include "engine/cpu/packed_matrix.h"
#include "engine/cpu/product.h"
#include "engine/cpu/tile_product-inl.h"
#include "engine/float16.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

// As "Intel 64 and IA-32 Architectures Software Developer's Manual" has TDPBF16PS, but for its flushing of subnormals.
class ModelTiles {
 public:
  static void Shape(const TileShapes& shapes) {
    shapes_ = shapes;
    tiles_ = {};
  }
  static void Release() { shapes_ = {}; }
  template <size_t kTile>
  static void Clear() {
    tiles_[kTile] = {};
  }
  template <size_t kTile>
  static void Load(const std::byte* at, size_t stride) {
    tiles_[kTile] = {};
    for (size_t row = 0; row < shapes_.rows[kTile]; ++row) {
      std::memcpy(tiles_[kTile][row].data(), at + row * stride, shapes_.row_bytes[kTile]);
    }
  }
  template <size_t kTile>
  static void LoadOnce(const std::byte* at, size_t stride) {
    Load<kTile>(at, stride);
  }
  template <size_t kSum, size_t kRows, size_t kWeights>
  static void AddProduct() {
    ASSERT_EQ(shapes_.rows[kSum], shapes_.rows[kRows]);
    ASSERT_EQ(shapes_.rows[kWeights] * sizeof(float), shapes_.row_bytes[kRows]);
    for (size_t row = 0; row < shapes_.rows[kSum]; ++row) {
      for (size_t column = 0; column < kLine<float>; ++column) {
        std::array<float, 2> sums = {};
        for (size_t pair = 0; pair < shapes_.rows[kWeights]; ++pair) {
          for (size_t k = 0; k < 2; ++k) {
            sums[k] = std::fma(Number(tiles_[kRows][row], 2 * pair + k), Number(tiles_[kWeights][pair], 2 * column + k),
                               sums[k]);
          }
        }
        float sum;
        std::memcpy(&sum, tiles_[kSum][row].data() + column * sizeof sum, sizeof sum);
        sum += sums[0] + sums[1];
        std::memcpy(tiles_[kSum][row].data() + column * sizeof sum, &sum, sizeof sum);
      }
    }
  }
  template <size_t kTile>
  static void Store(float* at, size_t stride) {
    for (size_t row = 0; row < shapes_.rows[kTile]; ++row) {
      std::memcpy(at + row * stride / sizeof *at, tiles_[kTile][row].data(), kLineBytes);
    }
  }

  static void AddLine(const float* start, const float* sums, float* target) {
    for (size_t k = 0; k < kLine<float>; ++k) target[k] = start[k] + sums[k];
  }

 private:
  using Row = std::array<std::byte, kLineBytes>;

  static float Number(const Row& row, size_t k) {
    uint16_t bits;
    std::memcpy(&bits, row.data() + k * sizeof bits, sizeof bits);
    return FloatFromBFloat16(bits);
  }

  static inline TileShapes shapes_;
  static inline std::array<std::array<Row, kTileRows>, 8> tiles_;
};

struct TileCase {
  TileCase(size_t row_count, size_t block_count, size_t unit_count, size_t k)
      : rows(row_count), blocks(block_count), units(unit_count), depth(k) {
    std::mt19937 random(static_cast<uint32_t>(rows * 31 + depth));
    for (const auto& [values, count] : {std::pair(&source, blocks * units * depth), std::pair(&inputs, rows * depth)}) {
      for (const double value : RandomValues(random, count, 1.0)) values->push_back(static_cast<float>(value));
    }
    stride = PadToLine<float>(units) * blocks;
  }

  std::vector<std::byte> Prepared(size_t count = kBrainParts) const {
    const size_t bytes = TileRowBytes(count, depth);
    std::vector<std::byte> prepared(rows * bytes, std::byte{0});
    for (size_t k = 0; k < rows * depth; ++k) {
      const auto parts = InParts(inputs[k]);
      const size_t term = k % depth;
      std::byte* const tile = prepared.data() + k / depth * bytes + term / kTileTerms * count * kLineBytes;
      for (size_t p = 0; p < count; ++p) {
        std::memcpy(tile + p * kLineBytes + term % kTileTerms * sizeof parts[p], &parts[p], sizeof parts[p]);
      }
    }
    return prepared;
  }

  template <class Multiply>
  AlignedBuffer<float> Run(size_t lines, const std::byte* prepared, const Multiply& multiply,
                           WeightForm form = {WeightType::kAsGiven, true}) const {
    const PackedMatrix<float> packed(source.data(), blocks, units, depth, form);
    const auto line = [&](size_t first) {
      if (form.has_parts()) return packed.parts(first);
      return packed.line<std::byte>(0) + first * packed.tile_line_bytes();
    };
    const AlignedBuffer<float> starts = StartValues();
    const bool is_zero = start_kind == StartKind::kZero;
    AlignedBuffer<float> target(rows * stride);
    const bool in_place = start_kind == StartKind::kTarget;
    for (size_t k = 0; k < target.size(); ++k) {
      target[k] = in_place ? starts[k] : std::numeric_limits<float>::quiet_NaN();
    }
    for (size_t first = 0; first < packed.lines(); first += lines) {
      const size_t column = first * kLine<float>;
      multiply(TileProduct{.rows = prepared,
                           .weights = line(first),
                           .depth = depth,
                           .count = rows,
                           .lines = std::min(lines, packed.lines() - first),
                           .start = is_zero ? kZeroLines<float> : (in_place ? target : starts).data() + column,
                           .start_stride = StartStride(),
                           .starts_at_zero = is_zero,
                           .target = target.data() + column,
                           .target_stride = stride});
    }
    return target;
  }

  AlignedBuffer<float> ByParts(size_t lines) const {
    return Run(lines, Prepared().data(),
               [](const TileProduct& product) { TileMultiplier<ModelTiles, kBrainParts>(product).Run(); });
  }

  AlignedBuffer<float> ByMultiplyAdds() const {
    const PackedMatrix<float> packed(source.data(), blocks, units, depth);
    const AlignedBuffer<float> starts = StartValues();
    AlignedBuffer<float> target(rows * stride);
    for (size_t first = 0; first < packed.lines(); ++first) {
      const size_t column = first * kLine<float>;
      cpu::Multiply(Product<float>{.count = rows,
                                   .rows = {inputs.data(), depth},
                                   .weights = &packed,
                                   .first_line = first,
                                   .lines = 1,
                                   .start = {starts.data() + column, StartStride()},
                                   .target = {target.data() + column, stride}});
    }
    return target;
  }

  // The largest difference from sums in double precision.
  double Error(const AlignedBuffer<float>& target) const {
    const AlignedBuffer<float> starts = StartValues();
    double largest = 0;
    for (size_t row = 0; row < rows; ++row) {
      for (size_t unit = 0; unit < blocks * units; ++unit) {
        const size_t line = unit % units / kLine<float> * blocks + unit / units;
        const size_t column = line * kLine<float> + unit % units % kLine<float>;
        double sum = starts[row * StartStride() + column];
        for (size_t k = 0; k < depth; ++k) {
          sum += static_cast<double>(inputs[row * depth + k]) * static_cast<double>(source[unit * depth + k]);
        }
        const float got = target[row * stride + column];
        largest = std::max(largest, std::fabs(static_cast<double>(got) - sum));
      }
    }
    return largest;
  }

  // What a product starts from: each row's own values, these in the target, the same for all rows, or zero.
  enum class StartKind { kOwn, kTarget, kSame, kZero };
  static constexpr std::array kAllStarts = {StartKind::kOwn, StartKind::kTarget, StartKind::kSame, StartKind::kZero};
  size_t StartStride() const { return start_kind <= StartKind::kTarget ? stride : 0; }
  AlignedBuffer<float> StartValues() const {
    AlignedBuffer<float> values(rows * stride);
    for (size_t k = 0; k < rows * stride; ++k) {
      values[k] = start_kind == StartKind::kZero ? 0 : start_scale * (0.5F + static_cast<float>(k % 37 % 11) / 8);
    }
    return values;
  }

  size_t rows, blocks, units, depth, stride;
  std::vector<float> source, inputs;
  StartKind start_kind = StartKind::kOwn;
  float start_scale = 1;
};

void ExpectAtLeastAsExact(const TileCase& one, size_t lines) {
  const auto scale = static_cast<double>(one.start_scale);
  EXPECT_LE(one.Error(one.ByParts(lines)), std::max(2e-7 * scale, one.Error(one.ByMultiplyAdds())));
}

TEST(TileProductTest, IsAtLeastAsExactAsMultiplyAdds) {
  for (const size_t rows : {1, 16, 17, 40, 50}) {
    for (const size_t depth : {32, 33, 150}) {
      for (const auto& [blocks, units, lines] : {std::array<size_t, 3>{4, 20, 4}, {3, 20, 6}, {1, 33, 1}}) {
        SCOPED_TRACE(std::to_string(rows) + " rows, depth " + std::to_string(depth) + ", lines " +
                     std::to_string(lines));
        ExpectAtLeastAsExact(TileCase(rows, blocks, units, depth), lines);
      }
    }
  }
}

TEST(TileProductTest, IsAboutAsExactOverManyTerms) {
  for (const size_t rows : {9, 32}) {
    const TileCase one(rows, 1, 33, 1000);
    EXPECT_LE(one.Error(one.ByParts(3)), 1.3 * one.Error(one.ByMultiplyAdds()));
  }
}

TEST(TileProductTest, IsSoFromAnyStart) {
  for (const size_t rows : {11, 23}) {
    TileCase one(rows, 4, 20, 150);
    for (const auto kind : TileCase::kAllStarts) {
      for (const float scale : {1.0F, 1000.0F}) {
        one.start_kind = kind, one.start_scale = scale;
        SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(static_cast<int>(kind)) + ", scale " +
                     std::to_string(scale));
        ExpectAtLeastAsExact(one, 8);
      }
    }
  }
}

// Of whole tiles, whose weights lie the same whether the CPU has tiles or not.
TEST(TileProductTest, TakesNarrowWeights) {
  for (const size_t rows : {1, 16, 17, 33}) {
    for (const size_t depth : {32, 96}) {
      TileCase one(rows, 4, 20, depth);
      for (std::vector<float>* const values : {&one.source, &one.inputs}) {
        for (float& value : *values) value = FloatFromBFloat16(BFloat16FromFloat(value));
      }
      const auto multiply = [](const TileProduct& product) { TileMultiplier<ModelTiles, 1>(product).Run(); };
      const auto got = one.Run(4, one.Prepared(1).data(), multiply, WeightType::kBFloat16);
      EXPECT_LE(one.Error(got), 5e-6) << rows << " rows, depth " << depth;
      for (const auto kind : TileCase::kAllStarts) {
        one.start_kind = kind;
        EXPECT_LE(one.Error(one.Run(8, one.Prepared(1).data(), multiply, WeightType::kBFloat16)), 5e-6);
      }
    }
  }
}

TEST(TileProductTest, PartsAddUpToTheNumber) {
  std::mt19937 random(5);
  for (int k = 0; k < 100'000; ++k) {
    const auto bits = static_cast<uint32_t>(random());
    const auto number = std::bit_cast<float>(bits);
    if (!(std::fabs(number) < kMostInParts) || std::fabs(number) < 1e-30F) continue;
    double sum = 0;
    for (const uint16_t part : InParts(number)) sum += static_cast<double>(FloatFromBFloat16(part));
    ASSERT_EQ(sum, static_cast<double>(number));
  }
}

constexpr WeightForm kVaries(WeightType::kAsGiven, true);

TEST(TileProductTest, WeightsHavePartsWhereTheyPay) {
  const auto have_parts = [](CellKind kind, int64_t units, size_t depth, WeightForm weights) {
    return FormOf(DefaultSpec(kind, DataType::kFloat, 1, units), depth, weights).has_parts();
  };
  EXPECT_TRUE(have_parts(CellKind::kRnn, 16, 32, kVaries));
  EXPECT_FALSE(have_parts(CellKind::kRnn, 16, 31, kVaries));
  EXPECT_TRUE(have_parts(CellKind::kRnn, 512, 512, kVaries));
  EXPECT_TRUE(have_parts(CellKind::kLstm, 256, 256, kVaries));
  EXPECT_TRUE(have_parts(CellKind::kRnn, 2896, 2896, kVaries));
  EXPECT_FALSE(have_parts(CellKind::kRnn, 2912, 2896, kVaries));
  // All blocks together, though a GRU has them apart.
  EXPECT_FALSE(have_parts(CellKind::kGru, 1680, 1680, kVaries));
  // Products of the largest numbers would not stay finite over more terms.
  EXPECT_TRUE(have_parts(CellKind::kRnn, 16, 1 << 14, kVaries));
  EXPECT_FALSE(have_parts(CellKind::kRnn, 16, (1 << 14) + 1, kVaries));
  EXPECT_FALSE(have_parts(CellKind::kRnn, 16, 32, WeightType::kAsGiven));
  EXPECT_FALSE(have_parts(CellKind::kRnn, 16, 32, {WeightType::kFloat16, true}));
}

TEST(TileProductTest, WeightsThatNeedMultiplyAddsKeepNoParts) {
  std::vector<float> weights(16 * 40, 0.5F);
  const auto have_parts = [&](WeightForm form) {
    return PackedMatrix<float>(weights.data(), 1, 16, 40, form).parts(0) != nullptr;
  };
  EXPECT_TRUE(have_parts(kVaries));
  EXPECT_FALSE(have_parts(WeightType::kAsGiven));
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -0x1p56F}) {
    weights[77] = value;
    EXPECT_FALSE(have_parts(kVaries)) << value;
  }
}

// Of whole tiles, whose weights lie the same where the CPU has none.
constexpr size_t kWholeDepth = 96;

// Half of the pieces of two products are for the first one: so many are done after it if it has as many passes as it
// has told, fewer if it has fewer, and more if it has more.
template <size_t kParts, bool kKeepsWeights>
void ExpectPasses(size_t rows, size_t lines) {
  const TileCase one(rows, 1, lines * kLine<float>, kWholeDepth);
  const auto prepared = one.Prepared(kParts);
  size_t done = 0;
  const auto count = [&done](size_t) { ++done; };
  Meanwhile meanwhile(10000, 2, count);
  const auto multiply = [&meanwhile](TileProduct product) {
    product.meanwhile = &meanwhile;
    TileMultiplier<ModelTiles, kParts, kKeepsWeights>(product).Run();
  };
  one.Run(lines, prepared.data(), multiply, kParts == 1 ? WeightForm(WeightType::kBFloat16) : kVaries);
  EXPECT_EQ(done, 5000U) << rows << " rows, " << lines << " lines";
}

TEST(TileProductTest, ExpectsAsManyPassesAsItHas) {
  for (const size_t rows : {1, 16, 17, 32, 40, 64, 130}) {
    for (const size_t lines : {1, 4, 6}) {
      ExpectPasses<1, false>(rows, lines);
      ExpectPasses<1, true>(rows, lines);
      ExpectPasses<kBrainParts, false>(rows, lines);
      ExpectPasses<kBrainParts, true>(rows, lines);
    }
  }
}

template <size_t kParts>
void ExpectSameInEitherOrder(size_t rows) {
  const TileCase one(rows, 3, 30, kWholeDepth);
  const WeightForm form = kParts == 1 ? WeightForm(WeightType::kBFloat16) : kVaries;
  const auto prepared = one.Prepared(kParts);
  const auto keeps_rows = [](const TileProduct& product) { TileMultiplier<ModelTiles, kParts, false>(product).Run(); };
  const auto keeps_weights = [](const TileProduct& product) {
    TileMultiplier<ModelTiles, kParts, true>(product).Run();
  };
  for (const size_t lines : {1, 3, 6}) {
    const auto got = one.Run(lines, prepared.data(), keeps_weights, form);
    const auto want = one.Run(lines, prepared.data(), keeps_rows, form);
    for (size_t k = 0; k < want.size(); ++k) ASSERT_EQ(got[k], want[k]) << rows << " rows";
  }
}

TEST(TileProductTest, WhatStaysInTheCacheChangesNoBit) {
  for (const size_t rows : {1, 16, 17, 40, 70}) {
    ExpectSameInEitherOrder<1>(rows);
    ExpectSameInEitherOrder<kBrainParts>(rows);
  }
}

// With the largest numbers that have parts nothing becomes infinite on the way.
TEST(TileProductTest, LargeNumbersStayFinite) {
  for (const size_t rows : {16, 17}) {
    TileCase one(rows, 1, 16, 150);
    for (size_t k = 0; k < one.inputs.size(); ++k) one.inputs[k] = std::ldexp(one.inputs[k], 55);
    for (size_t k = 0; k < one.source.size(); ++k) one.source[k] = std::ldexp(one.source[k], 55);
    EXPECT_LE(one.Error(one.ByParts(1)), std::ldexp(3e-6, 110));
  }
  for (const size_t rows : {8, 17}) {
    TileCase one(rows, 1, 16, kMostTermsInParts);
    const float largest = std::nextafter(kMostInParts, 0.0F);
    std::fill(one.inputs.begin(), one.inputs.end(), largest);
    std::fill(one.source.begin(), one.source.end(), largest);
    const auto got = one.ByParts(1);
    for (size_t k = 0; k < got.size(); ++k) ASSERT_TRUE(std::isfinite(got[k]));
  }
}

// Rows that need multiply-adds have none; nor have few rows.
TEST(TileProductTest, RowsHavePartsWhereTheyPay) {
  if (!HasTiles()) GTEST_SKIP() << "this CPU has no tiles";
  EXPECT_EQ(PreparedBytes(kVaries, 40, kPartsRows - 1, 64), 0);
  ASSERT_EQ(PreparedBytes(kVaries, 40, 20, 64), 20 * TileRowBytes(kBrainParts, 40));
  std::vector<float> rows(20 * 40, 0.25F);
  AlignedBuffer<std::byte> target(20 * TileRowBytes(kBrainParts, 40));
  const auto have_parts = [&] {
    return Prepare(kVaries, 40, 20, 64, {rows.data(), 40}, target.data()).prepared != nullptr;
  };
  EXPECT_TRUE(have_parts());
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 0x1p56F}) {
    rows[333] = value;
    EXPECT_FALSE(have_parts()) << value;
  }
}

template <size_t kParts>
void ExpectAgreesWithTheModel(size_t rows, size_t depth) {
  TileCase one(rows, 3, 20, depth);
  const WeightForm form = kParts == 1 ? WeightForm(WeightType::kBFloat16) : kVaries;
  AlignedBuffer<std::byte> prepared(rows * TileRowBytes(kParts, depth));
  ASSERT_TRUE(NarrowForTiles(kParts, depth, rows, one.inputs.data(), depth, prepared.data()));
  const auto by_cpu = [](const TileProduct& product) { MultiplyByTiles(kParts, product); };
  const auto by_model = [](const TileProduct& product) { TileMultiplier<ModelTiles, kParts>(product).Run(); };
  for (const auto kind : TileCase::kAllStarts) {
    one.start_kind = kind;
    const auto got = one.Run(3, prepared.data(), by_cpu, form);
    const auto want = one.Run(3, one.Prepared(kParts).data(), by_model, form);
    for (size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-5) << rows << " rows, depth " << depth;
  }
}

TEST(TileProductTest, TheCpusTilesAgreeWithTheModel) {
  if (!HasTiles()) GTEST_SKIP() << "this CPU has no tiles";
  for (const size_t rows : {1, 2, 15, 16, 17, 32, 33, 50, 130}) {
    for (const size_t depth : {1, 32, 33, 63, 150}) {
      ExpectAgreesWithTheModel<1>(rows, depth);
      ExpectAgreesWithTheModel<kBrainParts>(rows, depth);
    }
  }
}

// Of tiles that keep their shape, but for those that need another one.
TEST(TileProductTest, ProductsFollowEachOther) {
  if (!HasTiles()) GTEST_SKIP() << "this CPU has no tiles";
  const KeptTiles kept;
  for (const size_t rows : {17, 17, 16, 5, 5, 40, 16}) {
    ExpectAgreesWithTheModel<1>(rows, 40);
    ExpectAgreesWithTheModel<kBrainParts>(rows, 40);
  }
}

}  // namespace
}  // namespace rnnserve::cpu
