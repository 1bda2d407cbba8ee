// SPDX-License-Identifier: Apache-2.0
#include "engine/float16.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace rnnserve {
namespace {

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void Store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// A double goes to 16 bits in one rounding: round to odd in float first, which keeps what the second rounding needs.
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value || std::isinf(nearest)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;  // toward zero
  return std::bit_cast<float>(bits | 1u);
}

double LoadElement(DataType type, const std::byte* at) {
  switch (type) {
    case DataType::kFloat16:
      return static_cast<double>(FloatFromHalf(Load<uint16_t>(at)));
    case DataType::kBFloat16:
      return static_cast<double>(FloatFromBFloat16(Load<uint16_t>(at)));
    case DataType::kFloat:
      return static_cast<double>(Load<float>(at));
    default:
      return Load<double>(at);
  }
}

void StoreElement(DataType type, std::byte* at, double value) {
  switch (type) {
    case DataType::kFloat16:
      return Store(at, HalfFromFloat(RoundToOdd(value)));
    case DataType::kBFloat16:
      return Store(at, BFloat16FromFloat(RoundToOdd(value)));
    case DataType::kFloat:
      return Store(at, static_cast<float>(value));
    default:
      return Store(at, value);
  }
}

}  // namespace

float FloatFromHalf(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t HalfFromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65536 and up
  if (magnitude < 0x38800000u) {                                               // below 2^-14: subnormal or zero
    // Adding 0.5 puts the half's last subnormal bit at float's last bit: the addition rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t rounded = magnitude + 0xfffu + odd - (112u << 23);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

float FloatFromBFloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t BFloat16FromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

void ConvertElements(DataType from, const std::byte* source, DataType to, std::byte* target, size_t count) {
  if (from == to) {
    if (count > 0) std::memcpy(target, source, count * ByteSize(from));
    return;
  }
  const size_t from_size = ByteSize(from);
  const size_t to_size = ByteSize(to);
  for (size_t k = 0; k < count; ++k) StoreElement(to, target + k * to_size, LoadElement(from, source + k * from_size));
}

}  // namespace rnnserve
