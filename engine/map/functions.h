// SPDX-License-Identifier: Apache-2.0
// The functions of maps over runs of numbers. Source and target may be the same.
#pragma once

#include <cstdint>

#include "engine/map/map.h"

namespace rnnserve::map {

// y[k] = function(x[k]).
template <typename T>
void Apply(MapFunction function, double alpha, double beta, const T* x, T* y, int64_t count);

// y[k] = function(a[k], b[k]).
template <typename T>
void Combine(MapFunction function, const T* a, const T* b, T* y, int64_t count);

// Over `count` >= 1 numbers.
template <typename T>
T Reduce(MapFunction function, const T* x, int64_t count);

template <typename T>
void Softmax(const T* x, T* y, int64_t count, bool logarithm);

// (x - mean) / sqrt(variance + epsilon) * scale + bias; `bias` may be null.
template <typename T>
void Normalize(const T* x, T* y, int64_t count, double epsilon, const T* scale, const T* bias);

// Of equal ones the first, or the last; NaN is larger than any number. `count` >= 1.
template <typename T>
int64_t ArgMax(const T* x, int64_t count, bool is_last);

// The `k` largest, largest first, of equal ones the first. 1 <= k <= count. `order` has room for `count`.
template <typename T>
void TopK(const T* x, int64_t count, int64_t k, int64_t* order, T* values, int64_t* places);

}  // namespace rnnserve::map
