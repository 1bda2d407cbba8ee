// SPDX-License-Identifier: Apache-2.0
// Bit by bit what the scalar conversions of engine/float16.h give.
#include "engine/cpu/element_runs.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "engine/float16.h"

namespace rnnserve::cpu {
namespace {

constexpr DataType kNarrowTypes[] = {DataType::kFloat16, DataType::kBFloat16};

float Widened(DataType type, uint16_t bits) {
  return type == DataType::kFloat16 ? FloatFromHalf(bits) : FloatFromBFloat16(bits);
}

uint16_t Narrowed(DataType type, float value) {
  return type == DataType::kFloat16 ? HalfFromFloat(value) : BFloat16FromFloat(value);
}

bool IsSignallingNaN(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7fffffffu) > 0x7f800000u && (bits & 0x400000u) == 0;
}

TEST(ElementRunsTest, WidensEveryValue) {
  std::vector<std::byte> source(1 + 2 * 65536);
  for (uint32_t k = 0; k < 65536; ++k) {
    const auto bits = static_cast<uint16_t>(k);
    std::memcpy(source.data() + 1 + 2 * k, &bits, 2);
  }
  for (const DataType type : kNarrowTypes) {
    std::vector<float> target(65536);
    WidenElements(type, source.data() + 1, target.data(), target.size());
    for (uint32_t k = 0; k < 65536; ++k) {
      const float expected = Widened(type, static_cast<uint16_t>(k));
      // Hardware may quieten a signalling NaN.
      const uint32_t quiet = IsSignallingNaN(expected) ? std::bit_cast<uint32_t>(target[k]) & 0x400000u : 0;
      ASSERT_EQ(std::bit_cast<uint32_t>(target[k]), std::bit_cast<uint32_t>(expected) | quiet) << k;
    }
  }
}

// Every 16-bit value, the points half way to the next one, their neighbours, and random bits.
std::vector<float> Points(DataType type) {
  std::vector<float> points;
  for (uint32_t k = 0; k < 65536; ++k) {
    const auto bits = std::bit_cast<uint32_t>(Widened(type, static_cast<uint16_t>(k)));
    const uint32_t half = type == DataType::kFloat16 ? 0x1000 : 0x8000;
    for (const uint32_t offset : {0u, half - 1, half, half + 1}) points.push_back(std::bit_cast<float>(bits + offset));
  }
  std::mt19937 random(1);
  for (int k = 0; k < 100000; ++k) points.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return points;
}

TEST(ElementRunsTest, NarrowsToNearestEven) {
  for (const DataType type : kNarrowTypes) {
    const std::vector<float> points = Points(type);
    std::vector<std::byte> target(1 + 2 * points.size());
    NarrowElements(points.data(), type, target.data() + 1, points.size());
    for (size_t k = 0; k < points.size(); ++k) {
      uint16_t bits;
      std::memcpy(&bits, target.data() + 1 + 2 * k, 2);
      ASSERT_EQ(bits, Narrowed(type, points[k])) << points[k];
    }
  }
}

TEST(ElementRunsTest, ShortRunsStayInside) {
  for (const DataType type : kNarrowTypes) {
    for (size_t count = 0; count < 40; ++count) {
      const std::vector<float> source(count, 1.5f);
      std::vector<std::byte> narrow(2 * count + 1, std::byte{0x5a});
      NarrowElements(source.data(), type, narrow.data(), count);
      EXPECT_EQ(narrow.back(), std::byte{0x5a});
      std::vector<float> wide(count + 1, 7.0f);
      WidenElements(type, narrow.data(), wide.data(), count);
      EXPECT_EQ(wide.back(), 7.0f);
      for (size_t k = 0; k < count; ++k) ASSERT_EQ(wide[k], 1.5f);
    }
  }
}

}  // namespace
}  // namespace rnnserve::cpu
