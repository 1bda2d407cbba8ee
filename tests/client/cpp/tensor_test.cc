// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rnnserve::client {
namespace {

using testing::ElementsAre;

TEST(TensorTest, ConvertsBetweenFloatingTypesOnly) {
  const Tensor x = MakeTensor("X", {3}, std::vector<double>{0.5, -2, 1e9});
  for (DataType type : {DataType::kFloat, DataType::kBFloat16, DataType::kDouble}) {
    const auto converted = ConvertTensor(x, type);
    ASSERT_TRUE(converted.ok());
    EXPECT_EQ(converted->type, type);
    EXPECT_EQ(converted->bytes.size(), 3 * ByteSize(type));
    EXPECT_THAT(ValuesOf(*converted), ElementsAre(0.5, -2, testing::DoubleNear(1e9, 5e6)));
  }
  EXPECT_EQ(ValuesOf(*ConvertTensor(x, DataType::kFloat16))[2], std::numeric_limits<double>::infinity());
  EXPECT_FALSE(ConvertTensor(x, DataType::kInt32).ok());
  EXPECT_FALSE(ConvertTensor(MakeTensor("n", {1}, std::vector<int32_t>{1}), DataType::kFloat).ok());
}

TEST(TensorTest, ValuesOfIntegers) {
  EXPECT_THAT(ValuesOf(MakeTensor("n", {2}, std::vector<int32_t>{-1, 7})), ElementsAre(-1, 7));
  EXPECT_THAT(ValuesOf(MakeTensor("n", {1}, std::vector<int64_t>{int64_t{1} << 40})), ElementsAre(1099511627776.0));
  EXPECT_THAT(ValuesOf(MakeTensor("n", {0, 4}, std::vector<float>{})), ElementsAre());
}

}  // namespace
}  // namespace rnnserve::client
