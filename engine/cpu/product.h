// SPDX-License-Identifier: Apache-2.0
// Rows times packed weights, on one thread:
//
//   target[r][j] = start[r][j] + sum over k of rows[r][k] * weights[k][j]
//
// Every element is the start value plus one chain of fused multiply-adds after the other, each over the next 64 k and
// begun from zero (which keeps rounding errors small), whatever the number of rows: a row gives the same bits alone, in
// any batch and in any cut of its sequence. This is what `deterministic` rests on, and why the general path has a
// product of its own: a library's choice of kernel varies with the number of rows.
#pragma once

#include <cstddef>
#include <limits>

#include "engine/cpu/packed_matrix.h"

namespace rnnserve::cpu {

// Rows of a row-major matrix; the stride is counted in elements.
template <typename T>
struct Rows {
  T* data = nullptr;
  size_t stride = 0;
};

// Begins from `bias`, one value per column of `weights`, or, where it is null, from what `target` holds.
// Rows of `target` and `bias` begin on cache lines; `rows` need the alignment of T only and may not overlap `target`.
//
// Of the columns of `weights` only those from `first` to `end`, multiples of kPanel or the end of all.
void Multiply(size_t count, Rows<const float> rows, const PackedMatrix<float>& weights, const float* bias,
              Rows<float> target, size_t first = 0, size_t end = std::numeric_limits<size_t>::max());
void Multiply(size_t count, Rows<const double> rows, const PackedMatrix<double>& weights, const double* bias,
              Rows<double> target, size_t first = 0, size_t end = std::numeric_limits<size_t>::max());

}  // namespace rnnserve::cpu
