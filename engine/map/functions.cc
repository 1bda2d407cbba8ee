// SPDX-License-Identifier: Apache-2.0
#include "engine/map/functions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>

#include "engine/float16.h"

namespace rnnserve::map {
namespace {

template <typename T, typename F>
void Each(const T* x, T* y, int64_t count, F function) {
  for (int64_t k = 0; k < count; ++k) y[k] = function(x[k]);
}

template <typename T, typename F>
void EachPair(const T* a, const T* b, T* y, int64_t count, F function) {
  for (int64_t k = 0; k < count; ++k) y[k] = function(a[k], b[k]);
}

template <typename T>
T Sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

template <typename T>
T Softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

template <typename T>
T GeluTanh(T x) {
  const T inner = static_cast<T>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T{1} + std::tanh(inner));
}

float RoundedToFloat16(float x) { return FloatFromHalf(HalfFromFloat(x)); }
float RoundedToBFloat16(float x) { return FloatFromBFloat16(BFloat16FromFloat(x)); }

// Once, not by way of float32.
template <DataType to>
double RoundedOnce(double x) {
  std::array<std::byte, 2> narrow;
  double made = 0;
  ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(&x), to, narrow.data(), 1);
  ConvertElements(to, narrow.data(), DataType::kDouble, reinterpret_cast<std::byte*>(&made), 1);
  return made;
}
double RoundedToFloat16(double x) { return RoundedOnce<DataType::kFloat16>(x); }
double RoundedToBFloat16(double x) { return RoundedOnce<DataType::kBFloat16>(x); }

// exp(x) of an x that is not above 0, within two units of the last place.
double PowerOfE(double x) { return std::exp(x); }
float PowerOfE(float x) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: with it added, what is left of the point is all that fits
  const float turned = x * 1.44269504F + kRound;
  const float n = turned - kRound;  // x is n * log(2) + r
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float sum = 1.9875691500e-4F;
  for (const float term : {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F}) {
    sum = sum * r + term;
  }
  sum = sum * r * r + r + 1;
  const uint32_t exponent = std::bit_cast<uint32_t>(turned) - std::bit_cast<uint32_t>(kRound) + 127;
  return x < -87 ? 0 : sum * std::bit_cast<float>(exponent << 23);
}

// All numbers by `join`, in an order that depends on `count` alone and lets several go side by side.
template <typename T, typename F>
T Lanes(const T* x, int64_t count, T first, F join) {
  constexpr int64_t kLanes = 16;
  std::array<T, kLanes> lanes;
  lanes.fill(first);
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      T& sum = lanes[static_cast<size_t>(lane)];
      sum = join(sum, x[k + lane]);
    }
  }
  for (; k < count; ++k) lanes[0] = join(lanes[0], x[k]);
  for (size_t lane = 1; lane < kLanes; ++lane) lanes[0] = join(lanes[0], lanes[lane]);
  return lanes[0];
}

// NaN is larger than any number.
template <typename T>
bool IsLarger(T a, T b) {
  return a > b || (std::isnan(a) && !std::isnan(b));
}

}  // namespace

template <typename T>
void Apply(MapFunction function, double given_alpha, double given_beta, const T* x, T* y, int64_t count) {
  const T alpha = static_cast<T>(given_alpha), beta = static_cast<T>(given_beta);
  switch (function) {
    case MapFunction::kRelu:
      return Each(x, y, count, [](T v) { return v < T{0} ? T{0} : v; });
    case MapFunction::kTanh:
      return Each(x, y, count, [](T v) { return std::tanh(v); });
    case MapFunction::kSigmoid:
      return Each(x, y, count, [](T v) { return Sigmoid(v); });
    case MapFunction::kExp:
      return Each(x, y, count, [](T v) { return std::exp(v); });
    case MapFunction::kLog:
      return Each(x, y, count, [](T v) { return std::log(v); });
    case MapFunction::kSqrt:
      return Each(x, y, count, [](T v) { return std::sqrt(v); });
    case MapFunction::kNegative:
      return Each(x, y, count, [](T v) { return -v; });
    case MapFunction::kAbsolute:
      return Each(x, y, count, [](T v) { return std::abs(v); });
    case MapFunction::kReciprocal:
      return Each(x, y, count, [](T v) { return T{1} / v; });
    case MapFunction::kSquare:
      return Each(x, y, count, [](T v) { return v * v; });
    case MapFunction::kSoftplus:
      return Each(x, y, count, [](T v) { return Softplus(v); });
    case MapFunction::kSoftsign:
      return Each(x, y, count, [](T v) { return v / (T{1} + std::abs(v)); });
    case MapFunction::kErf:
      return Each(x, y, count, [](T v) { return std::erf(v); });
    case MapFunction::kSin:
      return Each(x, y, count, [](T v) { return std::sin(v); });
    case MapFunction::kCos:
      return Each(x, y, count, [](T v) { return std::cos(v); });
    case MapFunction::kSign:
      return Each(x, y, count, [](T v) { return v > T{0} ? T{1} : v < T{0} ? T{-1} : v; });
    case MapFunction::kFloor:
      return Each(x, y, count, [](T v) { return std::floor(v); });
    case MapFunction::kCeil:
      return Each(x, y, count, [](T v) { return std::ceil(v); });
    case MapFunction::kRound:
      return Each(x, y, count, [](T v) { return std::nearbyint(v); });
    case MapFunction::kGelu:
      return Each(x, y, count,
                  [](T v) { return T(0.5) * v * (T{1} + std::erf(v / static_cast<T>(std::numbers::sqrt2))); });
    case MapFunction::kGeluTanh:
      return Each(x, y, count, [](T v) { return GeluTanh(v); });
    case MapFunction::kSilu:
      return Each(x, y, count, [=](T v) { return v * Sigmoid(alpha * v); });
    case MapFunction::kLeakyRelu:
      return Each(x, y, count, [=](T v) { return v < T{0} ? alpha * v : v; });
    case MapFunction::kElu:
      return Each(x, y, count, [=](T v) { return v < T{0} ? alpha * std::expm1(v) : v; });
    case MapFunction::kSelu:
      return Each(x, y, count, [=](T v) { return beta * (v > T{0} ? v : alpha * std::expm1(v)); });
    case MapFunction::kHardSigmoid:
      return Each(x, y, count, [=](T v) { return std::clamp(alpha * v + beta, T{0}, T{1}); });
    case MapFunction::kClip:
      return Each(x, y, count, [=](T v) { return v < alpha ? alpha : v > beta ? beta : v; });
    case MapFunction::kToFloat16:
      return Each(x, y, count, [](T v) { return RoundedToFloat16(v); });
    case MapFunction::kToBFloat16:
      return Each(x, y, count, [](T v) { return RoundedToBFloat16(v); });
    case MapFunction::kToFloat:
      return Each(x, y, count, [](T v) { return static_cast<T>(static_cast<float>(v)); });
    default:
      std::copy_n(x, count, y);
  }
}

template <typename T>
void Combine(MapFunction function, const T* a, const T* b, T* y, int64_t count) {
  switch (function) {
    case MapFunction::kAdd:
      return EachPair(a, b, y, count, [](T v, T w) { return v + w; });
    case MapFunction::kSubtract:
      return EachPair(a, b, y, count, [](T v, T w) { return v - w; });
    case MapFunction::kMultiply:
      return EachPair(a, b, y, count, [](T v, T w) { return v * w; });
    case MapFunction::kDivide:
      return EachPair(a, b, y, count, [](T v, T w) { return v / w; });
    case MapFunction::kPower:
      return EachPair(a, b, y, count, [](T v, T w) { return std::pow(v, w); });
    case MapFunction::kMaximum:
      return EachPair(a, b, y, count, [](T v, T w) { return IsLarger(w, v) ? w : v; });
    case MapFunction::kMinimum:
      return EachPair(a, b, y, count, [](T v, T w) { return w < v || std::isnan(w) ? w : v; });
    case MapFunction::kGreater:
      return EachPair(a, b, y, count, [](T v, T w) { return v > w ? T{1} : T{0}; });
    case MapFunction::kGreaterOrEqual:
      return EachPair(a, b, y, count, [](T v, T w) { return v >= w ? T{1} : T{0}; });
    case MapFunction::kLess:
      return EachPair(a, b, y, count, [](T v, T w) { return v < w ? T{1} : T{0}; });
    case MapFunction::kLessOrEqual:
      return EachPair(a, b, y, count, [](T v, T w) { return v <= w ? T{1} : T{0}; });
    case MapFunction::kEqual:
      return EachPair(a, b, y, count, [](T v, T w) { return v == w ? T{1} : T{0}; });
    case MapFunction::kWhere:
      return EachPair(a, b, y, count, [](T v, T w) { return w != T{0} ? v : T{0}; });
    case MapFunction::kWhereNot:
      return EachPair(a, b, y, count, [](T v, T w) { return w == T{0} ? v : T{0}; });
    default:
      std::copy_n(a, count, y);
  }
}

template <typename T>
T Reduce(MapFunction function, const T* x, int64_t count) {
  T value = x[0];
  switch (function) {
    case MapFunction::kLargest:
      for (int64_t k = 1; k < count; ++k) value = IsLarger(x[k], value) ? x[k] : value;
      return value;
    case MapFunction::kSmallest:
      for (int64_t k = 1; k < count; ++k) value = x[k] < value || std::isnan(x[k]) ? x[k] : value;
      return value;
    default:
      for (int64_t k = 1; k < count; ++k) value += x[k];
      return function == MapFunction::kMean ? value / static_cast<T>(count) : value;
  }
}

template <typename T>
void Softmax(const T* x, T* y, int64_t count, bool logarithm) {
  const T largest = Lanes<T>(x, count, x[0], [](T a, T b) { return a > b ? a : b; });
  // Apart, for compilers to compute several at a time. NaN stays: all numbers of the group become it.
  for (int64_t k = 0; k < count; ++k) y[k] = PowerOfE(x[k] - largest);
  const T sum = Lanes<T>(y, count, T{0}, [](T a, T b) { return a + b; });
  if (logarithm) {
    const T less = std::log(sum);
    for (int64_t k = 0; k < count; ++k) y[k] = (x[k] - largest) - less;
  } else {
    const T scale = T{1} / sum;
    for (int64_t k = 0; k < count; ++k) y[k] *= scale;
  }
}

template <typename T>
void Normalize(const T* x, T* y, int64_t count, double epsilon, const T* scale, const T* bias) {
  T sum = 0;  // from the first one on: of equal numbers, however far from 0, nothing is rounded
  for (int64_t k = 1; k < count; ++k) sum += x[k] - x[0];
  const T mean = x[0] + sum / static_cast<T>(count);
  T variance = 0;
  for (int64_t k = 0; k < count; ++k) variance += (x[k] - mean) * (x[k] - mean);
  const T factor = T{1} / std::sqrt(variance / static_cast<T>(count) + static_cast<T>(epsilon));
  for (int64_t k = 0; k < count; ++k) {
    y[k] = (x[k] - mean) * factor * scale[k] + (bias == nullptr ? T{0} : bias[k]);
  }
}

template <typename T>
int64_t ArgMax(const T* x, int64_t count, bool is_last) {
  int64_t best = 0;
  for (int64_t k = 1; k < count; ++k)
    best = IsLarger(x[k], x[best]) || (is_last && !IsLarger(x[best], x[k])) ? k : best;
  return best;
}

template <typename T>
void TopK(const T* x, int64_t count, int64_t k, int64_t* order, T* values, int64_t* places) {
  constexpr int64_t kFew = 32;
  const auto before = [x](int64_t a, int64_t b) { return IsLarger(x[a], x[b]) || (!IsLarger(x[b], x[a]) && a < b); };
  if (k <= kFew) {  // each number against the last of those kept
    constexpr int64_t kLanes = 64;
    int64_t kept = 0;
    for (int64_t place = 0; place < count; ++place) {
      if (kept == k && place % kLanes == 0 && place + kLanes <= count) {  // most are passed over, many at a time
        const T last = x[order[k - 1]];
        int beyond = 0;
        for (int64_t lane = 0; lane < kLanes; ++lane) beyond |= x[place + lane] <= last ? 0 : 1;
        if (beyond == 0) {
          place += kLanes - 1;
          continue;
        }
      }
      if (kept == k && !IsLarger(x[place], x[order[k - 1]])) continue;
      int64_t at = kept < k ? kept++ : k - 1;
      for (; at > 0 && before(place, order[at - 1]); --at) order[at] = order[at - 1];
      order[at] = place;
    }
  } else {
    std::iota(order, order + count, 0);
    std::partial_sort(order, order + k, order + count, before);
  }
  for (int64_t place = 0; place < k; ++place) {
    values[place] = x[order[place]];
    places[place] = order[place];
  }
}

#define RNNSERVE_MAP_FUNCTIONS(T)                                             \
  template void Apply(MapFunction, double, double, const T*, T*, int64_t);    \
  template void Combine(MapFunction, const T*, const T*, T*, int64_t);        \
  template T Reduce(MapFunction, const T*, int64_t);                          \
  template void Softmax(const T*, T*, int64_t, bool);                         \
  template void Normalize(const T*, T*, int64_t, double, const T*, const T*); \
  template int64_t ArgMax(const T*, int64_t, bool);                           \
  template void TopK(const T*, int64_t, int64_t, int64_t*, T*, int64_t*);
RNNSERVE_MAP_FUNCTIONS(float)
RNNSERVE_MAP_FUNCTIONS(double)
#undef RNNSERVE_MAP_FUNCTIONS

}  // namespace rnnserve::map
