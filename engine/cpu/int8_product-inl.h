// SPDX-License-Identifier: Apache-2.0
// Products of narrow rows (narrow_rows.h) with weights of int8. Included once per Highway target, hence the guard that
// toggles.
//
// Products are of whole numbers, whose sums of 128 terms are exact in any order; each is scaled and added in float32.
// One instruction multiplies and adds two terms, which takes half the time of widening the weights to float32.
#if defined(RNNSERVE_INT8_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RNNSERVE_INT8_PRODUCT_INL_H_
#undef RNNSERVE_INT8_PRODUCT_INL_H_
#else
#define RNNSERVE_INT8_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/cpu/narrow_rows.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 128 terms. Returns their scale.
HWY_INLINE float NarrowScaled(const float* row, int16_t* target) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> whole;
  const hn::Rebind<int16_t, decltype(d)> narrow;
  // As bits, numbers above zero are in order, and infinities and NaN are above them all.
  auto largest = hn::Zero(whole);
  for (size_t k = 0; k < kScaledTerms; k += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::BitCast(whole, hn::Abs(hn::LoadU(d, row + k))));
  }
  const float most = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(whole, largest)));
  if (!(most <= std::numeric_limits<float>::max())) {
    std::fill_n(target, kScaledTerms, int16_t{1});
    return std::numeric_limits<float>::quiet_NaN();
  }
  const auto factor = hn::Set(d, most < kLeastRow ? 0 : kMostTerm / most);
  for (size_t k = 0; k < kScaledTerms; k += hn::Lanes(d)) {
    hn::Store(hn::DemoteTo(narrow, hn::NearestInt(hn::Mul(hn::LoadU(d, row + k), factor))), narrow, target + k);
  }
  return most < kLeastRow ? 0 : most / kMostTerm;
}

HWY_INLINE void NarrowRow(const float* row, size_t depth, std::byte* target) {
  auto* const values = reinterpret_cast<int16_t*>(target);
  TermScale* const scales = ScalesIn(target, depth);
  size_t k = 0;
  for (; k + kScaledTerms <= depth; k += kScaledTerms) {
    scales[k / kScaledTerms] = {NarrowScaled(row + k, values + k), 0};
  }
  if (k == depth) return;
  float padded[kScaledTerms] = {};
  std::copy(row + k, row + depth, padded);
  scales[k / kScaledTerms] = {NarrowScaled(padded, values + k), 0};
}

// Of a vector of words of four weights, the first two or the last two, ready to be multiplied by two terms of a row.
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
template <class D>
struct TwoWeights {
  using D16 = hn::Repartition<int16_t, D>;
  hn::Vec<D16> both;

  TwoWeights() = default;
  HWY_INLINE TwoWeights(D d, const int8_t* words, size_t half) {
    const auto all = hn::BitCast(D16(), hn::Load(d, reinterpret_cast<const int32_t*>(words)));
    both = hn::ShiftRight<8>(half == 0 ? hn::ShiftLeft<8>(all) : all);
  }
  HWY_INLINE hn::Vec<D> AddProducts(D d, int32_t terms, hn::Vec<D> sum) const {
    auto unused = hn::Zero(d);
    return hn::ReorderWidenMulAccumulate(d, both, hn::BitCast(D16(), hn::Set(d, terms)), sum, unused);
  }
};
#else
template <class D>
struct TwoWeights {
  hn::Vec<D> first, second;

  TwoWeights() = default;
  HWY_INLINE TwoWeights(D d, const int8_t* words, size_t half) {
    const auto all = hn::Load(d, reinterpret_cast<const int32_t*>(words));
    first = hn::ShiftRight<24>(half == 0 ? hn::ShiftLeft<24>(all) : hn::ShiftLeft<16>(all));
    second = hn::ShiftRight<24>(half == 0 ? hn::ShiftLeft<8>(all) : all);
  }
  HWY_INLINE hn::Vec<D> AddProducts(D d, int32_t terms, hn::Vec<D> sum) const {
    int16_t two[2];
    std::memcpy(two, &terms, sizeof two);
    sum = hn::Add(sum, hn::Mul(first, hn::Set(d, int32_t{two[0]})));
    return hn::Add(sum, hn::Mul(second, hn::Set(d, int32_t{two[1]})));
  }
};
#endif

// Two terms of a row.
HWY_INLINE int32_t TermsAt(const std::byte* row, size_t k) {
  int32_t terms;
  std::memcpy(&terms, row + k * sizeof(int16_t), sizeof terms);
  return terms;
}

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#endif
