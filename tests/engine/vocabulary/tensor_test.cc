// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor.h"

#include <gtest/gtest.h>

#include <limits>

namespace rnnserve {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(TensorTest, NumElements) {
  EXPECT_EQ(NumElements(Shape{}), 1);
  EXPECT_EQ(NumElements(Shape{0}), 0);
  EXPECT_EQ(NumElements(Shape{2, 3, 4}), 24);
  EXPECT_EQ(NumElements(Shape{kMax}), kMax);
  EXPECT_EQ(NumElements(Shape{kMax, 0, 1}), 0);
  EXPECT_EQ(NumElements(Shape{int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
}

TEST(TensorTest, NumElementsRefusesNegativesAndOverflow) {
  EXPECT_EQ(NumElements(Shape{-1}), std::nullopt);
  EXPECT_EQ(NumElements(Shape{0, -1}), std::nullopt);
  EXPECT_EQ(NumElements(Shape{std::numeric_limits<int64_t>::min()}), std::nullopt);
  EXPECT_EQ(NumElements(Shape{kMax, 2}), std::nullopt);
  EXPECT_EQ(NumElements(Shape{int64_t{1} << 32, int64_t{1} << 31}), std::nullopt);
  // An empty tensor whose other axes overflow: some partial product would.
  EXPECT_EQ(NumElements(Shape{kMax, kMax, 0}), std::nullopt);
  EXPECT_EQ(NumElements(Shape{0, kMax, kMax}), std::nullopt);
}

TEST(TensorTest, NumBytes) {
  EXPECT_EQ(NumBytes(DataType::kDouble, Shape{2, 3}), 48);
  EXPECT_EQ(NumBytes(DataType::kFloat16, Shape{kMax / 2}), kMax - 1);
  EXPECT_EQ(NumBytes(DataType::kFloat16, Shape{kMax / 2 + 1}), std::nullopt);
  EXPECT_EQ(NumBytes(DataType::kFloat, Shape{int64_t{1} << 61}), std::nullopt);
  EXPECT_EQ(NumBytes(DataType::kFloat, Shape{-4}), std::nullopt);
  EXPECT_EQ(NumBytes(DataType::kFloat, Shape{0, kMax}), std::nullopt);
  EXPECT_EQ(NumBytes(static_cast<DataType>(99), Shape{5}), 0);
}

TEST(TensorTest, ShapeStringIsReadable) {
  EXPECT_EQ(ShapeString(Shape{}), "[]");
  EXPECT_EQ(ShapeString(Shape{2, 3}), "[2, 3]");
}

}  // namespace
}  // namespace rnnserve
