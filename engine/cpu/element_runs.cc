// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/element_runs.h"

#include "engine/float16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/element_runs.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// One lane has nothing to gain.
size_t WidenSome(DataType, const std::byte*, float*, size_t) { return 0; }
size_t NarrowSome(const float*, DataType, std::byte*, size_t) { return 0; }

#else

// Below AVX2 Highway's own float16 conversion does not keep infinities and NaN: the scalar one runs there.
constexpr bool kHasFloat16 = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL;

using Floats = hn::ScalableTag<float>;
using Words = hn::Rebind<uint16_t, Floats>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;
using Bits = hn::Rebind<uint32_t, Floats>;
using SignedBits = hn::Rebind<int32_t, Floats>;

// Byte by byte: the words have no alignment.
HWY_INLINE hn::Vec<Words> LoadWords(const std::byte* at) {
  const hn::Repartition<uint8_t, Words> bytes;
  return hn::BitCast(Words(), hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(at)));
}

HWY_INLINE void StoreWords(hn::Vec<Words> words, std::byte* at) {
  const hn::Repartition<uint8_t, Words> bytes;
  hn::StoreU(hn::BitCast(bytes, words), bytes, reinterpret_cast<uint8_t*>(at));
}

HWY_INLINE hn::Vec<Floats> WidenHalf(hn::Vec<Words> words) {
  return hn::PromoteTo(Floats(), hn::BitCast(Halves(), words));
}

HWY_INLINE hn::Vec<Words> NarrowHalf(hn::Vec<Floats> values) {
  return hn::BitCast(Words(), hn::DemoteTo(Halves(), values));
}

HWY_INLINE hn::Vec<Floats> WidenBFloat16(hn::Vec<Words> words) {
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Bits(), words)));
}

// As BFloat16FromFloat: to nearest even, NaN stays NaN.
HWY_INLINE hn::Vec<Words> NarrowBFloat16(hn::Vec<Floats> values) {
  const Bits d;
  const auto bits = hn::BitCast(d, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7fffu)), odd));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x40u));
  const auto is_nan = hn::RebindMask(d, hn::IsNaN(values));
  return hn::DemoteTo(Words(), hn::BitCast(SignedBits(), hn::IfThenElse(is_nan, quiet, rounded)));
}

// Whole vectors only; the number of elements done.
template <bool kHalf>
size_t WidenVectors(const std::byte* source, float* target, size_t count) {
  const size_t lanes = hn::Lanes(Floats());
  size_t done = 0;
  for (; done + lanes <= count; done += lanes) {
    const auto words = LoadWords(source + 2 * done);
    hn::StoreU(kHalf ? WidenHalf(words) : WidenBFloat16(words), Floats(), target + done);
  }
  return done;
}

template <bool kHalf>
size_t NarrowVectors(const float* source, std::byte* target, size_t count) {
  const size_t lanes = hn::Lanes(Floats());
  size_t done = 0;
  for (; done + lanes <= count; done += lanes) {
    const auto values = hn::LoadU(Floats(), source + done);
    StoreWords(kHalf ? NarrowHalf(values) : NarrowBFloat16(values), target + 2 * done);
  }
  return done;
}

size_t WidenSome(DataType type, const std::byte* source, float* target, size_t count) {
  if (type == DataType::kBFloat16) return WidenVectors<false>(source, target, count);
  if (type == DataType::kFloat16 && kHasFloat16) return WidenVectors<kHasFloat16>(source, target, count);
  return 0;
}

size_t NarrowSome(const float* source, DataType type, std::byte* target, size_t count) {
  if (type == DataType::kBFloat16) return NarrowVectors<false>(source, target, count);
  if (type == DataType::kFloat16 && kHasFloat16) return NarrowVectors<kHasFloat16>(source, target, count);
  return 0;
}

#endif  // HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(WidenSome);
HWY_EXPORT(NarrowSome);

void WidenElements(DataType type, const std::byte* source, float* target, size_t count) {
  const size_t done = HWY_DYNAMIC_DISPATCH(WidenSome)(type, source, target, count);
  ConvertElements(type, source + done * ByteSize(type), DataType::kFloat, reinterpret_cast<std::byte*>(target + done),
                  count - done);
}

void WidenElements(DataType type, const std::byte* source, double* target, size_t count) {
  ConvertElements(type, source, DataType::kDouble, reinterpret_cast<std::byte*>(target), count);
}

void NarrowElements(const float* source, DataType type, std::byte* target, size_t count) {
  const size_t done = HWY_DYNAMIC_DISPATCH(NarrowSome)(source, type, target, count);
  ConvertElements(DataType::kFloat, reinterpret_cast<const std::byte*>(source + done), type,
                  target + done * ByteSize(type), count - done);
}

void NarrowElements(const double* source, DataType type, std::byte* target, size_t count) {
  ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(source), type, target, count);
}

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
