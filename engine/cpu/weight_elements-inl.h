// SPDX-License-Identifier: Apache-2.0
// What each kind of kept weights is made of, and how a vector of them becomes factors of a product. Included once per
// Highway target, hence the guard that toggles.
//
// Load: vector `vector` of a line's columns of the term `parity` (0 or 1) of the pair that begins at `pair`.
#if defined(RNNSERVE_WEIGHT_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RNNSERVE_WEIGHT_ELEMENTS_INL_H_
#undef RNNSERVE_WEIGHT_ELEMENTS_INL_H_
#else
#define RNNSERVE_WEIGHT_ELEMENTS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "engine/cpu/aligned_buffer.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
struct GivenElements {
  using Stored = T;
  static constexpr bool kScaled = false, kPaired = false, kRowsTogether = false;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const T* term, size_t, size_t vector) {
    return hn::Load(d, term + vector * hn::Lanes(d));
  }
};

struct HalfElements {
  using Stored = hwy::float16_t;
  static constexpr bool kScaled = false, kPaired = false, kRowsTogether = false;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const Stored* term, size_t, size_t vector) {
    const hn::Rebind<Stored, D> narrow;
    return hn::PromoteTo(d, hn::Load(narrow, term + vector * hn::Lanes(d)));
  }
};

struct BrainElements {
  using Stored = uint16_t;
  static constexpr bool kScaled = false, kPaired = true, kRowsTogether = false;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const Stored* pair, size_t parity, size_t vector) {
    const hn::RebindToUnsigned<D> words;
    const auto both = hn::Load(words, reinterpret_cast<const uint32_t*>(pair) + vector * hn::Lanes(words));
    return hn::BitCast(d, parity == 0 ? hn::ShiftLeft<16>(both) : hn::And(both, hn::Set(words, 0xffff0000u)));
  }
};

// Multiplied otherwise: int8_product-inl.h.
struct Int8Elements {
  using Stored = int8_t;
  static constexpr bool kScaled = true, kRowsTogether = false;
};

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#endif
