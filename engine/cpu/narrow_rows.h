// SPDX-License-Identifier: Apache-2.0
// What narrow rows share; and rows as products with int8 weights take them: whole numbers of 16 bits, each 128 terms
// with a scale of their own. The largest of the 128 is kMostTerm, so that what is lost is far below what the weights
// have lost, and sums of 128 products fit 32 bits.
//
//   a row: [128 numbers, 256 bytes] ... [128 numbers] [scale, offset] ... [scale, offset]   on cache lines
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/cpu/aligned_buffer.h"

namespace rnnserve::cpu {

inline constexpr size_t kScaledTerms = 128, kScaledBytes = 2 * kScaledTerms;
// Two bytes with signs make it: 127 * 256 + 127.
inline constexpr float kMostTerm = 32639;
// Rows whose numbers are all below are zero.
inline constexpr float kLeastRow = 1e-30F;

// Of 128 terms.
struct TermScale {
  float scale;     // NaN where one of them is NaN or infinite
  int32_t offset;  // to be taken from sums, where weights are stored without a sign
};

constexpr size_t ScalesOfRow(size_t depth) { return (depth + kScaledTerms - 1) / kScaledTerms; }

constexpr size_t NarrowInt8Bytes(size_t depth) {
  const size_t bytes = ScalesOfRow(depth) * (kScaledBytes + sizeof(TermScale));
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

// A bit for each number of a vector of sixteen that begins `left` before the end.
constexpr uint16_t Present(size_t left) {
  return static_cast<uint16_t>(left >= kLine<float> ? 0xffff : (1U << left) - 1);
}

template <typename Byte>
auto* ScalesIn(Byte* row, size_t depth) {
  using Scale = std::conditional_t<std::is_const_v<Byte>, const TermScale, TermScale>;
  return reinterpret_cast<Scale*>(row + ScalesOfRow(depth) * kScaledBytes);
}

}  // namespace rnnserve::cpu
