// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/product.h"

#include <gtest/gtest.h>

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
struct Product {
  Product(size_t row_count, size_t block_count, size_t unit_count, size_t k, uint32_t seed)
      : rows(row_count), blocks(block_count), units(unit_count), depth(k) {
    std::mt19937 random(seed);
    source = Draw<T>(random, blocks * units * depth);
    bias = Draw<T>(random, blocks * units);
    inputs = Draw<T>(random, rows * depth);
  }

  size_t width() const { return PadToLine<T>(units); }

  AlignedBuffer<T> Run(bool with_bias) const {
    const PackedMatrix<T> packed(source.data(), blocks, units, depth);
    const AlignedBuffer<T> padded = PadBlocks(bias.data(), blocks, units);
    const size_t stride = RowStride<T>(packed.columns());
    AlignedBuffer<T> target(rows * stride);
    for (size_t k = 0; k < target.size(); ++k) target[k] = static_cast<T>(0.5);
    Multiply(rows, {inputs.data(), depth}, packed, with_bias ? padded.data() : nullptr, {target.data(), stride});
    return target;
  }

  T At(const AlignedBuffer<T>& target, size_t row, size_t unit) const {
    const size_t stride = RowStride<T>(blocks * width());
    return target[row * stride + unit / units * width() + unit % units];
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
      for (const size_t depth : {0, 1, 19}) {
        const Product<TypeParam> product(rows, 3, units, depth, 7);
        const auto with_bias = product.Run(true);
        const auto added = product.Run(false);
        for (size_t row = 0; row < rows; ++row) {
          for (size_t unit = 0; unit < 3 * units; ++unit) {
            const double bias = static_cast<double>(product.bias[unit]);
            EXPECT_NEAR(static_cast<double>(product.At(with_bias, row, unit)), product.Exact(row, unit, bias),
                        20 * epsilon);
            EXPECT_NEAR(static_cast<double>(product.At(added, row, unit)), product.Exact(row, unit, 0.5), 20 * epsilon);
          }
        }
      }
    }
  }
}

TYPED_TEST(ProductTest, BitsOfARowDoNotDependOnTheNumberOfRows) {
  const Product<TypeParam> all(40, 4, 33, 57, 11);
  const auto together = all.Run(true);
  for (size_t rows = 1; rows < 40; ++rows) {
    Product<TypeParam> some = all;
    some.rows = rows;
    const auto apart = some.Run(true);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t unit = 0; unit < 4 * 33; ++unit) {
        ASSERT_EQ(some.At(apart, row, unit), all.At(together, row, unit)) << rows << " rows, row " << row;
      }
    }
  }
}

TYPED_TEST(ProductTest, NaNAndInfinityStayInTheirRow) {
  Product<TypeParam> product(9, 4, 5, 8, 13);
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
