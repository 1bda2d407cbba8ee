// SPDX-License-Identifier: Apache-2.0
// Runs of elements between the data type and the compute type: the bits of ConvertElements (engine/float16.h), with
// 16-bit types vectorised. The outer side needs no alignment, the inner one that of its type.
#pragma once

#include <cstddef>

#include "engine/data_type.h"

namespace rnnserve::cpu {

void WidenElements(DataType type, const std::byte* source, float* target, size_t count);
void WidenElements(DataType type, const std::byte* source, double* target, size_t count);
void NarrowElements(const float* source, DataType type, std::byte* target, size_t count);
void NarrowElements(const double* source, DataType type, std::byte* target, size_t count);

}  // namespace rnnserve::cpu
