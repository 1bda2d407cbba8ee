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

// By the sign of x: e = exp(-|x|) never overflows.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  const V e = hn::Exp(d, hn::Neg(hn::Abs(x)));
  const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return KeepNaN(d, x, hn::Div(numerator, hn::Add(one, e)));
}

// With m = exp(-2|x|) - 1: |tanh x| = -m / (2 + m), exact near 0 too.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SymmetricTanh(D d, V x) {
  const V two = hn::Set(d, hn::TFromD<D>{2});
  const V m = hn::Expm1(d, hn::Mul(hn::Neg(two), hn::Abs(x)));
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
