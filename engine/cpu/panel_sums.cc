// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/panel_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/panel_sums.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
void AddLines(size_t count, size_t lines, Rows<const T> inputs, Rows<const T> state, T* HWY_RESTRICT by_line) {
  const hn::ScalableTag<T> d;
  for (size_t line = 0; line < lines; ++line) {
    for (size_t row = 0; row < count; ++row, by_line += kLine<T>) {
      const T* const a = inputs.row(row) + line * kLine<T>;
      const T* const b = state.row(row) + line * kLine<T>;
      for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
        hn::Store(hn::Add(hn::Load(d, a + k), hn::Load(d, b + k)), d, by_line + k);
      }
    }
  }
}

void AddFloat(size_t count, size_t lines, Rows<const float> inputs, Rows<const float> state, float* by_line) {
  AddLines(count, lines, inputs, state, by_line);
}
void AddDouble(size_t count, size_t lines, Rows<const double> inputs, Rows<const double> state, double* by_line) {
  AddLines(count, lines, inputs, state, by_line);
}

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(AddFloat);
HWY_EXPORT(AddDouble);

void AddByLine(size_t count, size_t lines, Rows<const float> inputs, Rows<const float> state, float* by_line) {
  HWY_DYNAMIC_DISPATCH(AddFloat)(count, lines, inputs, state, by_line);
}
void AddByLine(size_t count, size_t lines, Rows<const double> inputs, Rows<const double> state, double* by_line) {
  HWY_DYNAMIC_DISPATCH(AddDouble)(count, lines, inputs, state, by_line);
}

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
