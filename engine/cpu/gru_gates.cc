// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/gru_gates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/gru_gates.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "engine/cpu/activation_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

template <class D, class V = hn::Vec<D>>
HWY_INLINE V BlendOf(D d, V z, V n, V h) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  return hn::MulAdd(hn::Sub(one, z), n, hn::Mul(z, h));
}

// All of a cell with the functions of nearly every model. In two passes, as lstm_gates.
template <typename T>
void DefaultGruGates(const GruUnits<T>& units, size_t blocks, Rows<const T> inputs, Rows<T> state,
                     const T* HWY_RESTRICT bias) {
  const hn::ScalableTag<T> d;
  for (size_t row = 0; row < units.count; ++row) {
    const T* HWY_RESTRICT a = inputs.row(row) + kLine<T>;
    T* HWY_RESTRICT b = state.row(row) + kLine<T>;
    const T* HWY_RESTRICT inner_bias = bias;
    for (size_t block = 0; block < blocks; ++block, a += 3 * kLine<T>, b += 3 * kLine<T>, inner_bias += kLine<T>) {
      for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
        const size_t n = kLine<T> + k;
        const auto r = Sigmoid(d, hn::Add(hn::Load(d, a + k), hn::Load(d, b + k)));
        const auto inner = hn::Add(hn::Load(d, b + n), hn::Load(d, inner_bias + k));
        hn::Store(hn::MulAdd(r, inner, hn::Load(d, a + n)), d, b + n);
      }
    }
  }
  for (size_t row = 0; row < units.count; ++row) {
    const T* HWY_RESTRICT a = inputs.row(row);
    const T* HWY_RESTRICT b = state.row(row);
    const T* HWY_RESTRICT h = units.h.row(row);
    T* HWY_RESTRICT next_h = units.next_h.row(row);
    for (size_t block = 0; block < blocks; ++block, a += 3 * kLine<T>, b += 3 * kLine<T>) {
      for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d), h += hn::Lanes(d), next_h += hn::Lanes(d)) {
        const auto z = Sigmoid(d, hn::Add(hn::Load(d, a + k), hn::Load(d, b + k)));
        const auto n = TanhOf(d, hn::Load(d, b + 2 * kLine<T> + k));
        hn::Store(BlendOf(d, z, n, hn::Load(d, h)), d, next_h);
      }
    }
  }
}

template <typename T>
void Merge(size_t count, Rows<const T> inputs, Rows<const T> state, const T* HWY_RESTRICT bias,
           T* HWY_RESTRICT by_line) {
  const hn::ScalableTag<T> d;
  const size_t line = count * kLine<T>;
  for (size_t row = 0; row < count; ++row, by_line += kLine<T>) {
    for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
      const auto inner = hn::Add(hn::Load(d, state.row(row) + 2 * kLine<T> + k), hn::Load(d, bias + k));
      const auto input = hn::Load(d, inputs.row(row) + 2 * kLine<T> + k);
      hn::Store(hn::MulAdd(hn::Load(d, by_line + line + k), inner, input), d, by_line + 2 * line + k);
    }
  }
}

template <typename T>
void Reset(const GruUnits<T>& units, const T* HWY_RESTRICT by_line, Rows<T> keep, Rows<T> reset) {
  const hn::ScalableTag<T> d;
  const size_t line = units.count * kLine<T>;
  for (size_t row = 0; row < units.count; ++row, by_line += kLine<T>) {
    for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
      hn::Store(hn::Load(d, by_line + k), d, keep.row(row) + k);
      const auto r = hn::Load(d, by_line + line + k);
      hn::Store(hn::Mul(r, hn::Load(d, units.h.row(row) + k)), d, reset.row(row) + k);
    }
  }
}

template <typename T>
void Blend(const GruUnits<T>& units, Rows<const T> z, const T* HWY_RESTRICT n) {
  const hn::ScalableTag<T> d;
  for (size_t row = 0; row < units.count; ++row, n += kLine<T>) {
    for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
      const auto keep = hn::Load(d, z.row(row) + k), h = hn::Load(d, units.h.row(row) + k);
      hn::Store(BlendOf(d, keep, hn::Load(d, n + k), h), d, units.next_h.row(row) + k);
    }
  }
}

template <typename T>
GruGates<T> GruGatesOf() {
  return {&DefaultGruGates<T>, &Merge<T>, &Reset<T>, &Blend<T>};
}
GruGates<float> GruGatesFloat() { return GruGatesOf<float>(); }
GruGates<double> GruGatesDouble() { return GruGatesOf<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(GruGatesFloat);
HWY_EXPORT(GruGatesDouble);

template <>
GruGates<float> FindGruGates() {
  return HWY_DYNAMIC_DISPATCH(GruGatesFloat)();
}
template <>
GruGates<double> FindGruGates() {
  return HWY_DYNAMIC_DISPATCH(GruGatesDouble)();
}

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
