// SPDX-License-Identifier: Apache-2.0
// 16-bit floats as they lie in memory, and the conversions between what memory holds and what is computed with.
// Rounding is to nearest even; NaN stays NaN, overflow gives infinities.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/cuda/host_device.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace rnnserve::cuda {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

namespace element_internal {

RNNSERVE_HOST_DEVICE uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
RNNSERVE_HOST_DEVICE float FromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace element_internal

RNNSERVE_HOST_DEVICE float Widen(Half value) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(value.bits));
#else
  using element_internal::FromBits;
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1f) return FromBits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return FromBits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
#endif
}
RNNSERVE_HOST_DEVICE float Widen(BFloat16 value) {
  return element_internal::FromBits(static_cast<uint32_t>(value.bits) << 16);
}
RNNSERVE_HOST_DEVICE float Widen(float value) { return value; }
RNNSERVE_HOST_DEVICE double Widen(double value) { return value; }

RNNSERVE_HOST_DEVICE void Narrow(float value, Half& out) {
#ifdef __CUDA_ARCH__
  out.bits = __half_as_ushort(__float2half_rn(value));
#else
  using element_internal::BitsOf;
  using element_internal::FromBits;
  const uint32_t bits = BitsOf(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    out.bits = static_cast<uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 0x47800000u) {
    out.bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // a subnormal half: adding 0.5 rounds at the half's last bit
    out.bits = static_cast<uint16_t>(sign | (BitsOf(FromBits(magnitude) + 0.5f) - 0x3f000000u));
  } else {
    const uint32_t odd = (magnitude >> 13) & 1u;
    out.bits = static_cast<uint16_t>(sign | ((magnitude + 0xfffu + odd - (112u << 23)) >> 13));
  }
#endif
}
RNNSERVE_HOST_DEVICE void Narrow(float value, BFloat16& out) {
  const uint32_t bits = element_internal::BitsOf(value);
  out.bits = (bits & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>((bits >> 16) | 0x40u)
                                                : static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
RNNSERVE_HOST_DEVICE void Narrow(float value, float& out) { out = value; }
RNNSERVE_HOST_DEVICE void Narrow(double value, double& out) { out = value; }

}  // namespace rnnserve::cuda
