// SPDX-License-Identifier: Apache-2.0
// Scalar conversions of 16-bit floats, and of runs of elements between data types. Rounding is to nearest even;
// NaN stays NaN, infinities and overflow give infinities, subnormals are exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/data_type.h"

namespace rnnserve {

float FloatFromHalf(uint16_t bits);
uint16_t HalfFromFloat(float value);
float FloatFromBFloat16(uint16_t bits);
uint16_t BFloat16FromFloat(float value);

// Converts `count` elements between floating types. Source and target need no alignment and do not overlap.
void ConvertElements(DataType from, const std::byte* source, DataType to, std::byte* target, size_t count);

}  // namespace rnnserve
