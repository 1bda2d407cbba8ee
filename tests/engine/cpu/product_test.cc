// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

template <typename T>
std::vector<T> Draw(std::mt19937& random, size_t count) {
  const std::vector<double> values = RandomValues(random, count, 1.0);
  return std::vector<T>(values.begin(), values.end());
}

template <typename T>
struct ProductCase {
  ProductCase(size_t row_count, size_t block_count, size_t unit_count, size_t k, uint32_t seed)
      : rows(row_count), blocks(block_count), units(unit_count), depth(k) {
    std::mt19937 random(seed);
    source = Draw<T>(random, blocks * units * depth);
    bias = Draw<T>(random, blocks * units);
    inputs = Draw<T>(random, rows * depth);
  }

  // All lines, `lines` at a time, from biases or from 0.5.
  AlignedBuffer<T> Run(bool with_bias, size_t lines = 4, size_t together = 1) const {
    const PackedMatrix<T> packed(source.data(), blocks, units, depth, WeightType::kAsGiven, together);
    const AlignedBuffer<T> start = PackVector(bias.data(), blocks, units);
    AlignedBuffer<T> target(rows * RowStride<T>(packed.columns()));
    for (size_t k = 0; k < target.size(); ++k) target[k] = static_cast<T>(0.5);
    for (size_t first = 0; first < packed.lines(); first += lines) {
      const size_t column = first * kLine<T>, stride = RowStride<T>(packed.columns());
      const Rows<const T> biases = {start.data() + column, 0}, before = {target.data() + column, stride};
      Multiply(cpu::Product<T>{.count = rows,
                               .rows = {inputs.data(), depth},
                               .weights = &packed,
                               .first_line = first,
                               .lines = std::min(lines, packed.lines() - first),
                               .start = with_bias ? biases : before,
                               .target = {target.data() + column, stride}});
    }
    return target;
  }

  T At(const AlignedBuffer<T>& target, size_t row, size_t unit) const {
    const size_t line = unit % units / kLine<T> * blocks + unit / units;
    return target[row * RowStride<T>(blocks * PadToLine<T>(units)) + line * kLine<T> + unit % units % kLine<T>];
  }

  double Exact(size_t row, size_t unit, double start) const {
    double sum = start;
    for (size_t k = 0; k < depth; ++k) {
      sum += static_cast<double>(inputs[row * depth + k]) * static_cast<double>(source[unit * depth + k]);
    }
    return sum;
  }

  size_t rows, blocks, units, depth;
  std::vector<T> source, bias, inputs;
};

template <typename T>
class ProductTest : public testing::Test {};
using ComputeTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(ProductTest, ComputeTypes);

TYPED_TEST(ProductTest, MatchesPlainSums) {
  const double epsilon = static_cast<double>(std::numeric_limits<TypeParam>::epsilon());
  for (const size_t rows : {1, 2, 3, 4, 5, 6, 7, 13, 31}) {
    for (const size_t units : {1, 7, 17, 33, 64}) {
      for (const size_t depth : {0, 1, 19, 300}) {
        const ProductCase<TypeParam> product(rows, 3, units, depth, 7);
        const double tolerance = 20 * epsilon * (1 + static_cast<double>(depth) / 20);
        const auto with_bias = product.Run(true);
        const auto added = product.Run(false);
        for (size_t row = 0; row < rows; ++row) {
          for (size_t unit = 0; unit < 3 * units; ++unit) {
            const double bias = static_cast<double>(product.bias[unit]);
            EXPECT_NEAR(static_cast<double>(product.At(with_bias, row, unit)), product.Exact(row, unit, bias),
                        tolerance);
            EXPECT_NEAR(static_cast<double>(product.At(added, row, unit)), product.Exact(row, unit, 0.5), tolerance);
          }
        }
      }
    }
  }
}

TYPED_TEST(ProductTest, BitsOfARowDoNotDependOnTheNumberOfRows) {
  const ProductCase<TypeParam> all(70, 4, 33, 157, 11);
  const auto together = all.Run(true);
  for (size_t rows = 1; rows < 70; ++rows) {
    ProductCase<TypeParam> some = all;
    some.rows = rows;
    const auto apart = some.Run(true, rows % 2 == 0 ? 3 : 4);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t unit = 0; unit < 4 * 33; ++unit) {
        ASSERT_EQ(some.At(apart, row, unit), all.At(together, row, unit)) << rows << " rows, row " << row;
      }
    }
  }
}

// Products of rows in the form that this machine's kernels take best, beside those of the rows as they are. `group`:
// lines of the weights that lie together, 1, 3 or 4.
void ExpectEqualBits(WeightType type, size_t rows, size_t units, size_t depth, size_t lines = 4, size_t group = 1) {
  const size_t blocks = group == 3 ? 3 : 4;
  const ProductCase<float> product(rows, blocks, units, depth, 29);
  const PackedMatrix<float> packed(product.source.data(), blocks, units, depth, type, group);
  const size_t columns = packed.columns();
  // Exactly as large as asked for: ASan sees what is written behind it.
  std::vector<std::byte> bytes(PreparedBytes(type, depth, rows, columns));
  if (bytes.empty()) return;
  const Factors<float> as_is = {product.inputs.data(), depth};
  const Factors<float> prepared = Prepare(type, depth, rows, columns, {product.inputs.data(), depth}, bytes.data());
  AlignedBuffer<float> expected(rows * columns), actual(rows * columns);
  for (size_t first = 0; first < packed.lines(); first += lines) {
    const size_t column = first * kLine<float>;
    for (const bool is_prepared : {false, true}) {
      Multiply(cpu::Product<float>{.count = rows,
                                   .rows = is_prepared ? prepared : as_is,
                                   .weights = &packed,
                                   .first_line = first,
                                   .lines = std::min(lines, packed.lines() - first),
                                   .target = {(is_prepared ? actual : expected).data() + column, columns}});
    }
  }
  for (size_t k = 0; k < rows * columns; ++k) {
    ASSERT_EQ(actual[k], expected[k]) << rows << " rows, depth " << depth << ", element " << k;
  }
}

TEST(PreparedRowsTest, GiveTheSameBits) {
  for (const WeightType type : {WeightType::kAsGiven, WeightType::kFloat16, WeightType::kBFloat16}) {
    if (PreparedBytes(type, 64, 1, 128) != 0) continue;  // these products need the form
    for (const size_t depth : {0, 1, 3, 64, 157}) {
      for (size_t rows = 1; rows <= 40; ++rows) ExpectEqualBits(type, rows, 40, depth);
    }
    // Large enough for weights to be asked for.
    for (const size_t rows : {6, 7, 12, 19, 31}) ExpectEqualBits(type, rows, 700, 1003);
    for (const size_t lines : {1, 3, 5, 6, 8}) {
      for (const size_t rows : {7, 8, 13}) {
        ExpectEqualBits(type, rows, 40, 157, lines);
        ExpectEqualBits(type, rows, 300, 501, lines);
      }
    }
  }
}

TEST(PreparedRowsTest, GiveTheSameBitsWhereLinesLieTogether) {
  for (const size_t group : {3, 4}) {
    for (const size_t lines : {group, 2 * group}) {
      for (size_t rows = 6; rows <= 14; ++rows) {
        ExpectEqualBits(WeightType::kAsGiven, rows, 50, 157, lines, group);
        ExpectEqualBits(WeightType::kAsGiven, rows, 180, 301, lines, group);
      }
    }
  }
}

TEST(PreparedRowsTest, FewRowsOrColumnsStayAsTheyAre) {
  EXPECT_EQ(PreparedBytes(WeightType::kAsGiven, 64, kPreparedRows - 1, 1024), 0);
  EXPECT_EQ(PreparedBytes(WeightType::kAsGiven, 64, 64, kPreparedColumns - 16), 0);
}

// Cells take lines in different numbers.
TYPED_TEST(ProductTest, BitsDoNotDependOnTheLinesTakenAtOnce) {
  const ProductCase<TypeParam> product(13, 3, 50, 200, 17);
  const auto expected = product.Run(true);
  for (const size_t lines : {1, 2, 3, 5, 6, 7, 8}) {
    const auto results = product.Run(true, lines);
    for (size_t row = 0; row < 13; ++row) {
      for (size_t unit = 0; unit < 150; ++unit) {
        ASSERT_EQ(product.At(results, row, unit), product.At(expected, row, unit)) << lines;
      }
    }
  }
}

// Lines that lie term by term, whole groups of them taken at once.
TYPED_TEST(ProductTest, BitsDoNotDependOnWhichLinesLieTogether) {
  for (const size_t group : {3, 4}) {
    for (size_t rows = 1; rows <= 13; ++rows) {
      const ProductCase<TypeParam> product(rows, group, 50, 200, 17);
      const auto expected = product.Run(true);
      for (const size_t lines : {group, 2 * group}) {
        const auto results = product.Run(true, lines, group);
        for (size_t row = 0; row < rows; ++row) {
          for (size_t unit = 0; unit < group * 50; ++unit) {
            ASSERT_EQ(product.At(results, row, unit), product.At(expected, row, unit)) << rows << " rows, " << lines;
          }
        }
      }
    }
  }
}

// Large weights are asked for ahead by many rows, and read once by eight.
TYPED_TEST(ProductTest, BitsDoNotDependOnTheSizeOfTheWeights) {
  const ProductCase<TypeParam> all(13, 4, 1024, 1041, 23);
  const auto together = all.Run(true);
  for (const size_t rows : {2, 7, 8}) {
    ProductCase<TypeParam> some = all;
    some.rows = rows;
    const auto apart = some.Run(true, rows == 7 ? 5 : 4);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t unit = 0; unit < 4096; ++unit) {
        ASSERT_EQ(all.At(together, row, unit), some.At(apart, row, unit))
            << rows << " rows, row " << row << ", unit " << unit;
      }
    }
  }
}

// Many rows ask for weights ahead where these are large.
TYPED_TEST(ProductTest, WeightsBeyondTheCachesGiveTheSameBits) {
  const ProductCase<TypeParam> far(19, 3, 509, 1501, 23);
  const auto together = far.Run(true, 3);
  ProductCase<TypeParam> alone = far;
  alone.rows = 1;
  for (size_t row = 0; row < 19; row += 6) {
    alone.inputs.assign(far.inputs.begin() + static_cast<std::ptrdiff_t>(row * 1501),
                        far.inputs.begin() + static_cast<std::ptrdiff_t>((row + 1) * 1501));
    const auto apart = alone.Run(true);
    for (size_t unit = 0; unit < 3 * 509; ++unit) {
      ASSERT_EQ(far.At(together, row, unit), alone.At(apart, 0, unit)) << row;
      if (unit % 100 != 8) continue;
      EXPECT_NEAR(static_cast<double>(far.At(together, row, unit)),
                  far.Exact(row, unit, static_cast<double>(far.bias[unit])),
                  1600 * static_cast<double>(std::numeric_limits<TypeParam>::epsilon()));
    }
  }
}

TYPED_TEST(ProductTest, BeginsFromZeroIfNotToldOtherwise) {
  const ProductCase<TypeParam> product(7, 1, 40, 70, 19);
  const PackedMatrix<TypeParam> packed(product.source.data(), 1, 40, 70);
  const size_t stride = packed.columns();
  AlignedBuffer<TypeParam> target(7 * stride);
  Multiply(cpu::Product<TypeParam>{.count = 7,
                                   .rows = {product.inputs.data(), 70},
                                   .weights = &packed,
                                   .lines = packed.lines(),
                                   .target = {target.data(), stride}});
  for (size_t row = 0; row < 7; ++row) {
    for (size_t unit = 0; unit < 40; ++unit) {
      EXPECT_NEAR(static_cast<double>(target[row * stride + unit]), product.Exact(row, unit, 0),
                  100 * static_cast<double>(std::numeric_limits<TypeParam>::epsilon()));
    }
  }
}

TYPED_TEST(ProductTest, NaNAndInfinityStayInTheirRow) {
  ProductCase<TypeParam> product(9, 4, 5, 8, 13);
  const auto clean = product.Run(true);
  product.inputs[3 * 8 + 2] = std::numeric_limits<TypeParam>::quiet_NaN();
  product.inputs[5 * 8 + 7] = std::numeric_limits<TypeParam>::infinity();
  const auto dirty = product.Run(true);
  for (size_t row = 0; row < 9; ++row) {
    for (size_t unit = 0; unit < 20; ++unit) {
      const TypeParam value = product.At(dirty, row, unit);
      if (row == 3) {
        EXPECT_TRUE(std::isnan(value));
      } else if (row == 5) {
        EXPECT_TRUE(std::isinf(value));
      } else {
        EXPECT_EQ(value, product.At(clean, row, unit));
      }
    }
  }
}

}  // namespace
}  // namespace rnnserve::cpu
