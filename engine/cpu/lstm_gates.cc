// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/lstm_gates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/lstm_gates.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "engine/cpu/activation_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

// Peepholes of i, o and f, `stride` apart; none where kUsed is false.
template <typename T, bool kUsed>
struct Peepholes {
  const T* p = nullptr;
  size_t stride = 0;

  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V Add(D d, V gate, size_t which, size_t unit, V c) const {
    if constexpr (!kUsed) return gate;
    return hn::MulAdd(hn::Load(d, p + which * stride + unit), c, gate);
  }
};

// All of a cell with the functions of nearly every model, in registers. In two passes, each of which has less to wait
// for: the processor then works on several units at once.
template <typename T, bool kPeephole>
HWY_INLINE void RunAll(const LstmUnits<T>& units, size_t blocks, Rows<const T> inputs, Rows<const T> state,
                       Peepholes<T, kPeephole> peepholes) {
  const hn::ScalableTag<T> d;
  for (size_t row = 0; row < units.count; ++row) {
    const T* HWY_RESTRICT a = inputs.row(row);
    const T* HWY_RESTRICT b = state.row(row);
    T* HWY_RESTRICT c = units.c.row(row);
    for (size_t unit = 0; unit < blocks * kLine<T>; unit += kLine<T>, a += 4 * kLine<T>, b += 4 * kLine<T>) {
      for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
        const size_t f = 2 * kLine<T> + k, n = 3 * kLine<T> + k, own = unit + k;
        const auto cell = hn::Load(d, c + own);
        const auto i = peepholes.Add(d, hn::Add(hn::Load(d, a + k), hn::Load(d, b + k)), 0, own, cell);
        const auto added = SigmoidTimesTanh(d, i, hn::Add(hn::Load(d, a + n), hn::Load(d, b + n)));
        const auto keep = Sigmoid(d, peepholes.Add(d, hn::Add(hn::Load(d, a + f), hn::Load(d, b + f)), 2, own, cell));
        hn::Store(hn::MulAdd(keep, cell, added), d, c + own);
      }
    }
  }
  for (size_t row = 0; row < units.count; ++row) {
    const T* HWY_RESTRICT a = inputs.row(row) + kLine<T>;
    const T* HWY_RESTRICT b = state.row(row) + kLine<T>;
    const T* HWY_RESTRICT c = units.c.row(row);
    T* HWY_RESTRICT h = units.next_h.row(row);
    for (size_t unit = 0; unit < blocks * kLine<T>; unit += kLine<T>, a += 4 * kLine<T>, b += 4 * kLine<T>) {
      for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
        const auto cell = hn::Load(d, c + unit + k);
        const auto o = peepholes.Add(d, hn::Add(hn::Load(d, a + k), hn::Load(d, b + k)), 1, unit + k, cell);
        hn::Store(SigmoidTimesTanh(d, o, cell), d, h + unit + k);
      }
    }
  }
}

template <typename T>
void All(const LstmUnits<T>& units, size_t blocks, Rows<const T> inputs, Rows<const T> state) {
  RunAll<T, false>(units, blocks, inputs, state, {});
}

template <typename T>
void AllWithPeephole(const LstmUnits<T>& units, size_t blocks, Rows<const T> inputs, Rows<const T> state, const T* p,
                     size_t stride) {
  RunAll<T, true>(units, blocks, inputs, state, {p, stride});
}

template <typename T>
void AddPeephole(const LstmUnits<T>& units, const T* HWY_RESTRICT p, T* HWY_RESTRICT line) {
  const hn::ScalableTag<T> d;
  for (size_t row = 0; row < units.count; ++row, line += kLine<T>) {
    const T* const c = units.c.row(row);
    for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
      hn::Store(hn::MulAdd(hn::Load(d, p + k), hn::Load(d, c + k), hn::Load(d, line + k)), d, line + k);
    }
  }
}

template <typename T, bool kInputForget>
void UpdateCell(const LstmUnits<T>& units, T* by_line) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, T{1});
  const size_t line = units.count * kLine<T>;
  for (size_t row = 0; row < units.count; ++row, by_line += kLine<T>) {
    T* const c = units.c.row(row);
    T* const n = by_line + 3 * line;
    for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
      const auto input = hn::Load(d, by_line + k);
      const auto keep = kInputForget ? hn::Sub(one, input) : hn::Load(d, by_line + 2 * line + k);
      const auto cell = hn::MulAdd(keep, hn::Load(d, c + k), hn::Mul(input, hn::Load(d, n + k)));
      hn::Store(cell, d, c + k);
      hn::Store(cell, d, n + k);
    }
  }
}

template <typename T>
void Output(const LstmUnits<T>& units, const T* by_line) {
  const hn::ScalableTag<T> d;
  const size_t line = units.count * kLine<T>;
  for (size_t row = 0; row < units.count; ++row, by_line += kLine<T>) {
    T* const h = units.next_h.row(row);
    for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
      hn::Store(hn::Mul(hn::Load(d, by_line + line + k), hn::Load(d, by_line + 3 * line + k)), d, h + k);
    }
  }
}

template <typename T>
LstmGates<T> LstmGatesOf() {
  return {&All<T>, &AllWithPeephole<T>, &AddPeephole<T>, &UpdateCell<T, false>, &UpdateCell<T, true>, &Output<T>};
}
LstmGates<float> LstmGatesFloat() { return LstmGatesOf<float>(); }
LstmGates<double> LstmGatesDouble() { return LstmGatesOf<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(LstmGatesFloat);
HWY_EXPORT(LstmGatesDouble);

template <>
LstmGates<float> FindLstmGates() {
  return HWY_DYNAMIC_DISPATCH(LstmGatesFloat)();
}
template <>
LstmGates<double> FindLstmGates() {
  return HWY_DYNAMIC_DISPATCH(LstmGatesDouble)();
}

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
