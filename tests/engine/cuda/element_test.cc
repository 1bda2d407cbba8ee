// SPDX-License-Identifier: Apache-2.0
// 16-bit elements as the kernels' host build converts them, against the engines' own conversions.
#include "engine/cuda/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "engine/float16.h"

namespace rnnserve::cuda {
namespace {

bool Same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(ElementTest, AllHalvesWidenAndComeBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const float wide = Widen(half);
    ASSERT_TRUE(Same(wide, FloatFromHalf(half.bits))) << bits;
    Half back{};
    Narrow(wide, back);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(Widen(back))) << bits;
    } else {
      ASSERT_EQ(back.bits, half.bits);
    }
  }
}

TEST(ElementTest, AllBFloat16sWidenAndComeBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const BFloat16 value{static_cast<uint16_t>(bits)};
    const float wide = Widen(value);
    ASSERT_TRUE(Same(wide, FloatFromBFloat16(value.bits))) << bits;
    BFloat16 back{};
    Narrow(wide, back);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(Widen(back))) << bits;
    } else {
      ASSERT_EQ(back.bits, value.bits);
    }
  }
}

// Every exponent and sign; mantissas around the ties of both types.
TEST(ElementTest, RoundingIsToNearestEven) {
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low :
         {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = element_internal::FromBits(high << 16 | low);
      if (std::isnan(value)) continue;
      Half half{};
      BFloat16 brain{};
      Narrow(value, half);
      Narrow(value, brain);
      ASSERT_EQ(half.bits, HalfFromFloat(value)) << value;
      ASSERT_EQ(brain.bits, BFloat16FromFloat(value)) << value;
    }
  }
}

}  // namespace
}  // namespace rnnserve::cuda
