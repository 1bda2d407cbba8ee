// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/activations.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/activations.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "engine/cpu/activation_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

template <ActivationKind kKind, class D, class V = hn::Vec<D>>
HWY_INLINE V Function(D d, V x, V alpha, V beta) {
  if constexpr (kKind == ActivationKind::kRelu) return Relu(d, x);
  if constexpr (kKind == ActivationKind::kTanh) return TanhOf(d, x);
  if constexpr (kKind == ActivationKind::kSigmoid) return Sigmoid(d, x);
  if constexpr (kKind == ActivationKind::kAffine) return hn::MulAdd(alpha, x, beta);
  if constexpr (kKind == ActivationKind::kLeakyRelu) return LeakyRelu(d, x, alpha);
  if constexpr (kKind == ActivationKind::kThresholdedRelu) return ThresholdedRelu(d, x, alpha);
  if constexpr (kKind == ActivationKind::kScaledTanh) return hn::Mul(alpha, TanhOf(d, hn::Mul(beta, x)));
  if constexpr (kKind == ActivationKind::kHardSigmoid) return HardSigmoid(d, x, alpha, beta);
  if constexpr (kKind == ActivationKind::kElu) return Elu(d, x, alpha);
  if constexpr (kKind == ActivationKind::kSoftsign) return Softsign(d, x);
  if constexpr (kKind == ActivationKind::kSoftplus) return Softplus(d, x);
}

template <typename T, ActivationKind kKind, bool kClips>
void Run(const LineSums<T>& sums, const typename ClippedActivation<T>::Parameters& parameters) {
  const hn::ScalableTag<T> d;
  const auto alpha = hn::Set(d, parameters.alpha);
  const auto beta = hn::Set(d, parameters.beta);
  const auto bound = hn::Set(d, parameters.clip);
  for (size_t row = 0; row < sums.count; ++row) {
    const T* inputs = sums.inputs.row(row);
    const T* state = sums.state.row(row);
    T* target = sums.target + row * sums.row_stride;
    for (size_t line = 0; line < sums.lines; ++line) {
      for (size_t k = 0; k < kLine<T>; k += hn::Lanes(d)) {
        auto x = hn::Add(hn::Load(d, inputs + k), hn::Load(d, state + k));
        if constexpr (kClips) x = Clip(d, x, bound);
        hn::Store(Function<kKind>(d, x, alpha, beta), d, target + k);
      }
      inputs += kLine<T>, state += kLine<T>, target += sums.line_stride;
    }
  }
}

template <typename T, ActivationKind kKind>
typename ClippedActivation<T>::Run RunOf(bool clips) {
  return clips ? &Run<T, kKind, true> : &Run<T, kKind, false>;
}

template <typename T>
typename ClippedActivation<T>::Run FindRun(ActivationKind kind, bool clips) {
  switch (kind) {
    case ActivationKind::kRelu:
      return RunOf<T, ActivationKind::kRelu>(clips);
    case ActivationKind::kTanh:
      return RunOf<T, ActivationKind::kTanh>(clips);
    case ActivationKind::kSigmoid:
      return RunOf<T, ActivationKind::kSigmoid>(clips);
    case ActivationKind::kAffine:
      return RunOf<T, ActivationKind::kAffine>(clips);
    case ActivationKind::kLeakyRelu:
      return RunOf<T, ActivationKind::kLeakyRelu>(clips);
    case ActivationKind::kThresholdedRelu:
      return RunOf<T, ActivationKind::kThresholdedRelu>(clips);
    case ActivationKind::kScaledTanh:
      return RunOf<T, ActivationKind::kScaledTanh>(clips);
    case ActivationKind::kHardSigmoid:
      return RunOf<T, ActivationKind::kHardSigmoid>(clips);
    case ActivationKind::kElu:
      return RunOf<T, ActivationKind::kElu>(clips);
    case ActivationKind::kSoftsign:
      return RunOf<T, ActivationKind::kSoftsign>(clips);
    case ActivationKind::kSoftplus:
      return RunOf<T, ActivationKind::kSoftplus>(clips);
  }
  return nullptr;
}

ClippedActivation<float>::Run FindFloat(ActivationKind kind, bool clips) { return FindRun<float>(kind, clips); }
ClippedActivation<double>::Run FindDouble(ActivationKind kind, bool clips) { return FindRun<double>(kind, clips); }

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(FindFloat);
HWY_EXPORT(FindDouble);

template <>
ClippedActivation<float>::ClippedActivation(const Activation& activation, double clip)
    : run_(HWY_DYNAMIC_DISPATCH(FindFloat)(activation.kind, !std::isinf(clip))),
      parameters_{static_cast<float>(activation.alpha), static_cast<float>(activation.beta), static_cast<float>(clip)} {
}

template <>
ClippedActivation<double>::ClippedActivation(const Activation& activation, double clip)
    : run_(HWY_DYNAMIC_DISPATCH(FindDouble)(activation.kind, !std::isinf(clip))),
      parameters_{activation.alpha, activation.beta, clip} {}

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
