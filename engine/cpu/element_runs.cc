// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/element_runs.h"

#include "engine/float16.h"

namespace rnnserve::cpu {

void WidenElements(DataType type, const std::byte* source, float* target, size_t count) {
  ConvertElements(type, source, DataType::kFloat, reinterpret_cast<std::byte*>(target), count);
}

void WidenElements(DataType type, const std::byte* source, double* target, size_t count) {
  ConvertElements(type, source, DataType::kDouble, reinterpret_cast<std::byte*>(target), count);
}

void NarrowElements(const float* source, DataType type, std::byte* target, size_t count) {
  ConvertElements(DataType::kFloat, reinterpret_cast<const std::byte*>(source), type, target, count);
}

void NarrowElements(const double* source, DataType type, std::byte* target, size_t count) {
  ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(source), type, target, count);
}

}  // namespace rnnserve::cpu
