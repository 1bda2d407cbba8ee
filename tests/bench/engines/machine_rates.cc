// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/engines/machine_rates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/engines/machine_rates.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

double Add(int64_t rounds, float* out) {
  const D d;
  V sum[12];
  for (size_t k = 0; k < 12; ++k) sum[k] = hn::Set(d, static_cast<float>(k) + out[0]);
  const V a = hn::Set(d, 0.5f + out[1]), b = hn::Set(d, 0.25f + out[2]);
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t k = 0; k < 12; ++k) sum[k] = hn::MulAdd(a, sum[k], b);
  }
  for (size_t k = 1; k < 12; ++k) sum[0] = hn::Add(sum[0], sum[k]);
  hn::StoreU(sum[0], d, out);
  return 2.0 * 12 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

void Sum(const float* data, size_t count, bool down, float* out) {
  const D d;
  const size_t n = hn::Lanes(d), step = 16 * n;
  V sum[16];
  for (V& s : sum) s = hn::Zero(d);
  for (size_t at = 0; at < count; at += step) {
    const float* from = data + (down ? count - step - at : at);
    for (size_t k = 0; k < 16; ++k) sum[k] = hn::Add(sum[k], hn::Load(d, from + k * n));
  }
  for (size_t k = 1; k < 16; ++k) sum[0] = hn::Add(sum[0], sum[k]);
  hn::StoreU(sum[0], d, out);
}

const char* Name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::bench {

HWY_EXPORT(Add);
HWY_EXPORT(Sum);
HWY_EXPORT(Name);

const char* RatesTarget() { return HWY_DYNAMIC_DISPATCH(Name)(); }

double MultiplyAdds(int64_t rounds, float* out) { return HWY_DYNAMIC_DISPATCH(Add)(rounds, out); }

void ReadFloats(const float* data, size_t count, bool down, float* out) {
  HWY_DYNAMIC_DISPATCH(Sum)(data, count, down, out);
}

}  // namespace rnnserve::bench
#endif  // HWY_ONCE
