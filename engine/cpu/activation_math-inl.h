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

template <class D>
inline constexpr bool kIsFloat = std::is_same_v<hn::TFromD<D>, float>;

// e^(c x) as scale * (1 + rest), of float32. Shorter than Highway's exp and expm1, which are for all arguments; rest is
// exact near x = 0.
template <class V>
struct Exponential {
  V scale;
  V rest;
};

// c = -1 or 2, and c x between -88.7 and 89: there scale goes from 0 to infinity. NaN gives NaN as rest.
template <int c, class D, class V = hn::Vec<D>>
HWY_INLINE Exponential<V> ExponentialOf(D d, V x) {
  constexpr float kUpper = c * 1.44269502f;  // of c log2(e)
  // The integer n next to c x log2(e) appears in the last bits of the sum, with the bias of an exponent.
  const hn::RebindToUnsigned<D> bits;
  const V shift = hn::Set(d, 12582912.0f + 127);
#if HWY_NATIVE_FMA
  const V shifted = hn::MulAdd(x, hn::Set(d, kUpper), shift);
  const V n = hn::Sub(shifted, shift);
  const V f = hn::MulAdd(x, hn::Set(d, c * 1.92596303e-8f), hn::MulSub(x, hn::Set(d, kUpper), n));
#else
  const V shifted = hn::Add(hn::Mul(x, hn::Set(d, kUpper)), shift);
  const V n = hn::Sub(shifted, shift);
  // Nothing is lost in the difference: n times the upper bits of ln 2 is exact.
  const V upper = hn::Sub(hn::Mul(x, hn::Set(d, float{c})), hn::Mul(n, hn::Set(d, 0.693359375f)));
  const V f = hn::Mul(hn::Add(upper, hn::Mul(n, hn::Set(d, 2.12194440e-4f))), hn::Set(d, 1.44269502f));
#endif
  // 2^f - 1 for |f| <= 1/2 as f times a polynomial with a relative error below 2.2e-8.
  V p = hn::Set(d, 0.000154035108f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00133907353f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.00961823761f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555035733f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.240226492f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693147182f));
  return {hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted))), hn::Mul(p, f)};
}

// x between the bounds; NaN stays (Min and Max return their second argument where one is NaN).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Bounded(D d, float low, V x, float high) {
  return hn::Max(hn::Set(d, low), hn::Min(hn::Set(d, high), x));
}

// 1 + e^-x, of which Sigmoid is the inverse; infinite where that is below normal numbers.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V OnePlusExp(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const Exponential<V> e = ExponentialOf<-1>(d, Bounded(d, -89.0f, x, 88.0f));
  return hn::MulAdd(e.scale, hn::Add(one, e.rest), one);
}

// e^2x - 1, of which Tanh is m / (m + 2). Beyond 10 that is 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1OfTwice(D d, V x) {
  const Exponential<V> e = ExponentialOf<2>(d, Bounded(d, -10.0f, x, 10.0f));
  return hn::MulAdd(e.scale, e.rest, hn::Sub(e.scale, hn::Set(d, 1.0f)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  if constexpr (kIsFloat<D>) {
    return hn::Div(one, OnePlusExp(d, x));
  } else {
    // By the sign of x: e never overflows.
    const V e = hn::Exp(d, hn::Neg(hn::Abs(x)));
    const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
    return KeepNaN(d, x, hn::Div(numerator, hn::Add(one, e)));
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V TanhOf(D d, V x) {
  const V two = hn::Set(d, hn::TFromD<D>{2});
  if constexpr (kIsFloat<D>) {
    const V m = Expm1OfTwice(d, x);
    return hn::Div(m, hn::Add(two, m));
  } else {
    const V m = hn::Expm1(d, hn::Neg(hn::Mul(two, hn::Abs(x))));
    return KeepNaN(d, x, hn::CopySign(hn::Div(m, hn::Add(two, m)), x));
  }
}

// Sigmoid(x) Tanh(y), by one division where that is exact enough.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SigmoidTimesTanh(D d, V x, V y) {
  if constexpr (kIsFloat<D>) {
    const V m = Expm1OfTwice(d, y);
    return hn::Div(m, hn::Mul(OnePlusExp(d, x), hn::Add(hn::Set(d, 2.0f), m)));
  } else {
    return hn::Mul(Sigmoid(d, x), TanhOf(d, y));
  }
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
