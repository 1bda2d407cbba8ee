// SPDX-License-Identifier: Apache-2.0
#include "engine/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace rnnserve {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The value of a half from its definition.
double HalfValue(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

bool IsNanHalf(uint16_t bits) { return (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff); }
bool IsNanBFloat(uint16_t bits) { return (bits & 0x7f80) == 0x7f80 && (bits & 0x7f); }

uint16_t Convert16(DataType to, double value) {
  uint16_t bits = 0;
  ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(&value), to,
                  reinterpret_cast<std::byte*>(&bits), 1);
  return bits;
}

TEST(Float16Test, AllHalvesHaveTheirValueAndComeBack) {
  for (uint32_t k = 0; k < 65536; ++k) {
    const auto bits = static_cast<uint16_t>(k);
    const float value = FloatFromHalf(bits);
    if (IsNanHalf(bits)) {
      ASSERT_TRUE(std::isnan(value) && IsNanHalf(HalfFromFloat(value)) &&
                  IsNanHalf(Convert16(DataType::kFloat16, static_cast<double>(value))))
          << k;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), HalfValue(bits)) << k;
    ASSERT_EQ(HalfFromFloat(value), bits) << k;
    ASSERT_EQ(Convert16(DataType::kFloat16, static_cast<double>(value)), bits) << k;
  }
}

TEST(Float16Test, AllBFloat16ComeBack) {
  for (uint32_t k = 0; k < 65536; ++k) {
    const auto bits = static_cast<uint16_t>(k);
    const float value = FloatFromBFloat16(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(value) >> 16,
              k | (IsNanBFloat(bits) ? 0x40u & (std::bit_cast<uint32_t>(value) >> 16) : 0u));
    if (IsNanBFloat(bits)) {
      ASSERT_TRUE(std::isnan(value) && IsNanBFloat(BFloat16FromFloat(value))) << k;
      continue;
    }
    ASSERT_EQ(BFloat16FromFloat(value), bits) << k;
    ASSERT_EQ(Convert16(DataType::kBFloat16, static_cast<double>(value)), bits) << k;
  }
}

// Between every two neighbouring halves: the middle goes to the even one, a hair beside it to the nearer one. In double
// the hair is far below float's precision, so that rounding twice would show.
TEST(Float16Test, RoundsToNearestEvenInOneStep) {
  for (uint32_t k = 0; k < 0x7c00; ++k) {  // the last pair is 65504 and what would be 65536
    const auto low = static_cast<uint16_t>(k), high = static_cast<uint16_t>(k + 1);
    const double a = HalfValue(low), b = k + 1 == 0x7c00 ? 65536 : HalfValue(high);
    const double middle = (a + b) / 2;
    const uint16_t even = k % 2 == 0 ? low : high;
    ASSERT_EQ(HalfFromFloat(static_cast<float>(middle)), even) << k;
    ASSERT_EQ(Convert16(DataType::kFloat16, middle), even) << k;
    ASSERT_EQ(Convert16(DataType::kFloat16, std::nextafter(middle, 0)), low) << k;
    ASSERT_EQ(Convert16(DataType::kFloat16, std::nextafter(middle, 1e9)), high) << k;
    ASSERT_EQ(Convert16(DataType::kFloat16, -std::nextafter(middle, 0)), low | 0x8000) << k;
    ASSERT_EQ(HalfFromFloat(std::nextafter(static_cast<float>(middle), 0.0f)), low) << k;
    ASSERT_EQ(HalfFromFloat(std::nextafter(static_cast<float>(middle), 1e9f)), high) << k;
  }
}

TEST(Float16Test, BFloat16RoundsToNearestEvenInOneStep) {
  for (uint32_t k = 0; k < 0x7f80; ++k) {
    const auto low = static_cast<uint16_t>(k), high = static_cast<uint16_t>(k + 1);
    const double a = static_cast<double>(FloatFromBFloat16(low));
    const double b = k + 1 == 0x7f80 ? std::ldexp(1.0, 128) : static_cast<double>(FloatFromBFloat16(high));
    const double middle = (a + b) / 2;
    ASSERT_EQ(Convert16(DataType::kBFloat16, middle), k % 2 == 0 ? low : high) << k;
    ASSERT_EQ(Convert16(DataType::kBFloat16, std::nextafter(middle, 0)), low) << k;
    ASSERT_EQ(Convert16(DataType::kBFloat16, std::nextafter(middle, 1e300)), high) << k;
  }
}

TEST(Float16Test, Extremes) {
  EXPECT_EQ(HalfFromFloat(kInf), 0x7c00);
  EXPECT_EQ(HalfFromFloat(-kInf), 0xfc00);
  EXPECT_EQ(HalfFromFloat(1e30f), 0x7c00);
  EXPECT_EQ(HalfFromFloat(65519.996f), 0x7bff);
  EXPECT_EQ(HalfFromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(HalfFromFloat(-0.0f), 0x8000);
  EXPECT_EQ(Convert16(DataType::kFloat16, 1e300), 0x7c00);
  EXPECT_EQ(Convert16(DataType::kFloat16, -1e300), 0xfc00);
  EXPECT_EQ(Convert16(DataType::kFloat16, 1e-300), 0);
  EXPECT_EQ(Convert16(DataType::kFloat16, -1e-300), 0x8000);
  EXPECT_EQ(Convert16(DataType::kBFloat16, 1e300), 0x7f80);
  EXPECT_EQ(Convert16(DataType::kBFloat16, std::numeric_limits<double>::denorm_min()), 0);
}

TEST(Float16Test, RunsOfElementsNeedNoAlignment) {
  const DataType types[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBFloat16};
  for (DataType from : types) {
    for (DataType to : types) {
      const std::vector<double> values = {0, 1, -2, 0.5, 96, -0.0078125};
      std::vector<std::byte> source(values.size() * 8 + 1), target(values.size() * 8 + 1);
      std::vector<double> back(values.size());
      ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(values.data()), from, source.data() + 1, 6);
      ConvertElements(from, source.data() + 1, to, target.data() + 1, 6);
      ConvertElements(to, target.data() + 1, DataType::kDouble, reinterpret_cast<std::byte*>(back.data()), 6);
      EXPECT_EQ(back, values) << DataTypeName(from) << " to " << DataTypeName(to);
    }
  }
  ConvertElements(DataType::kFloat, nullptr, DataType::kDouble, nullptr, 0);
}

}  // namespace
}  // namespace rnnserve
