// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli, RFC 3720), for bytes that were stored and may come back damaged.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rnnserve {

inline uint32_t Crc32c(std::string_view bytes) {
  // The polynomial bit-reversed, a byte at a time.
  static constexpr std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t k = 0; k < 256; ++k) {
      uint32_t value = k;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
      made[k] = value;
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace rnnserve
