// SPDX-License-Identifier: Apache-2.0
// The eleven functions on one vector. Included once per Highway target, hence the guard that toggles.
//
// Highway's exp and expm1 turn NaN into a number; comparisons below are written so that NaN falls through to the branch
// that keeps it.
#if defined(RNNSERVE_ACTIVATION_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RNNSERVE_ACTIVATION_MATH_INL_H_
#undef RNNSERVE_ACTIVATION_MATH_INL_H_
#else
#define RNNSERVE_ACTIVATION_MATH_INL_H_
#endif

#include <limits>
#include <type_traits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Clip(D, V x, V bound) {
  const V low = hn::Neg(bound);
  return hn::IfThenElse(hn::Gt(x, bound), bound, hn::IfThenElse(hn::Lt(x, low), low, x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V KeepNaN(D, V x, V result) {
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Relu(D d, V x) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
}

// exp(-y) for y >= 0 as scale + scale * rest, where rest is exact near y = 0; both 0 where that is below normal
// numbers. Shorter than Highway's exp and expm1, which are for all arguments.
template <class V>
struct Decay {
  V scale;
  V rest;
};

// 2^f - 1 for |f| <= 1/2 as f times a polynomial with a relative error below 2.2e-8.
template <class D, class V = hn::Vec<D>>
HWY_INLINE Decay<V> DecayOf(D d, V y) {
  const hn::RebindToSigned<D> bits;
  // Beyond 88 the exponent bits would be used up; NaN gives anything.
  const V bounded = hn::Min(hn::Set(d, 88.0f), y);
  const V minus_log2e = hn::Set(d, -1.44269502f);
  const V n = hn::Round(hn::Mul(bounded, minus_log2e));
#if HWY_NATIVE_FMA
  const V below_it = hn::Set(d, -1.92596303e-8f);
  const V f = hn::MulAdd(bounded, below_it, hn::MulSub(bounded, minus_log2e, n));
#else
  // Nothing is lost in the difference: n times the upper bits of ln 2 is exact.
  const V ln2 = hn::Set(d, 0.693359375f), above_it = hn::Set(d, 2.12194440e-4f);
  const V f = hn::Mul(hn::Sub(hn::Add(bounded, hn::Mul(n, ln2)), hn::Mul(n, above_it)), minus_log2e);
#endif
  V p = hn::Set(d, 0.000154035108f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00133907353f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.00961823761f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555035733f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.240226492f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693147182f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(bits, n), hn::Set(bits, 127)));
  return {hn::BitCast(d, exponent), hn::Mul(p, f)};
}

template <class D>
inline constexpr bool kIsFloat = std::is_same_v<hn::TFromD<D>, float>;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOfMinus(D d, V y) {
  if constexpr (kIsFloat<D>) {
    const Decay<V> decay = DecayOf(d, y);
    return hn::MulAdd(decay.scale, decay.rest, decay.scale);
  } else {
    return hn::Exp(d, hn::Neg(y));
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1OfMinus(D d, V y) {
  if constexpr (kIsFloat<D>) {
    const Decay<V> decay = DecayOf(d, y);
    return hn::MulAdd(decay.scale, decay.rest, hn::Sub(decay.scale, hn::Set(d, 1.0f)));
  } else {
    return hn::Expm1(d, hn::Neg(y));
  }
}

// By the sign of x: e = exp(-|x|) never overflows.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  const V e = ExpOfMinus(d, hn::Abs(x));
  const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return KeepNaN(d, x, hn::Div(numerator, hn::Add(one, e)));
}

// With m = exp(-2|x|) - 1: |tanh x| = -m / (2 + m), exact near 0 too.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SymmetricTanh(D d, V x) {
  const V two = hn::Set(d, hn::TFromD<D>{2});
  const V m = Expm1OfMinus(d, hn::Mul(two, hn::Abs(x)));
  return KeepNaN(d, x, hn::CopySign(hn::Div(m, hn::Add(two, m)), x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LeakyRelu(D d, V x, V alpha) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(alpha, x), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V ThresholdedRelu(D d, V x, V alpha) {
  return hn::IfThenElse(hn::Lt(x, alpha), hn::Zero(d), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V HardSigmoid(D d, V x, V alpha, V beta) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  const V y = Relu(d, hn::MulAdd(alpha, x, beta));
  return hn::IfThenElse(hn::Gt(y, one), one, y);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Elu(D d, V x, V alpha) {
  const V below = hn::Expm1(d, hn::Neg(hn::Abs(x)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(alpha, below), x);
}

// At infinity the quotient would be NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Softsign(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  const V size = hn::Abs(x);
  const V infinity = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::infinity());
  return hn::IfThenElse(hn::Eq(size, infinity), hn::CopySign(one, x), hn::Div(x, hn::Add(one, size)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Softplus(D d, V x) {
  const V e = hn::Exp(d, hn::Neg(hn::Abs(x)));
  return hn::Add(Relu(d, x), hn::Log1p(d, e));
}

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
