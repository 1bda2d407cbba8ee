// SPDX-License-Identifier: Apache-2.0
#include "server/core/nonfinite.h"

#include <cstring>
#include <type_traits>

namespace rnnserve {
namespace {

// Elements looked at before the answer so far is: few enough to stop soon, many enough for vectors.
constexpr size_t kBlock = 4096;

// An IEEE number is neither NaN nor infinite unless all bits of its exponent are set.
template <typename Bits, Bits kExponent>
bool AnyExponentFull(std::string_view bytes) {
  const size_t count = bytes.size() / sizeof(Bits);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = begin + kBlock < count ? begin + kBlock : count;
    Bits found = 0;
    for (size_t k = begin; k < end; ++k) {
      Bits bits;
      std::memcpy(&bits, bytes.data() + k * sizeof(Bits), sizeof(Bits));
      found = static_cast<Bits>(found | static_cast<Bits>((bits & kExponent) == kExponent));
    }
    if (found != 0) return true;
  }
  return false;
}

}  // namespace

bool HasNonfinite(DataType type, std::string_view bytes) {
  switch (type) {
    case DataType::kFloat:
      return AnyExponentFull<uint32_t, 0x7f800000>(bytes);
    case DataType::kDouble:
      return AnyExponentFull<uint64_t, 0x7ff0000000000000>(bytes);
    case DataType::kFloat16:
      return AnyExponentFull<uint16_t, 0x7c00>(bytes);
    case DataType::kBFloat16:
      return AnyExponentFull<uint16_t, 0x7f80>(bytes);
    default:
      return false;
  }
}

}  // namespace rnnserve
