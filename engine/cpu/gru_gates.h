// SPDX-License-Identifier: Apache-2.0
// The element-wise parts of gru_step, for a line of units of some rows, on the machine's vector units.
#pragma once

#include <cstddef>

#include "engine/cpu/product.h"

namespace rnnserve::cpu {

// Those units of the state, before and after.
template <typename T>
struct GruUnits {
  size_t count = 0;  // of rows
  Rows<const T> h;
  Rows<T> next_h;
};

// `inputs` and `state`: rows of the lines z, r, h of W x and R h. `by_line`: z, r, n, a line of all rows behind the
// other.
template <typename T>
struct GruGates {
  // linear_before_reset, from inputs and state to the next h, for Sigmoid and Tanh; `blocks` lines of units. `bias`:
  // Rbh. Changes the state's line h.
  void (*all)(const GruUnits<T>& units, size_t blocks, Rows<const T> inputs, Rows<T> state, const T* bias);
  // linear_before_reset: n = inputs of h + r (.) (state of h + bias).
  void (*merge)(size_t count, Rows<const T> inputs, Rows<const T> state, const T* bias, T* by_line);
  // keep = z; reset = r (.) h.
  void (*reset)(const GruUnits<T>& units, const T* by_line, Rows<T> keep, Rows<T> reset);
  // next h = (1 - z) (.) n + z (.) h.
  void (*blend)(const GruUnits<T>& units, Rows<const T> z, const T* n);
};

// Those for this machine.
template <typename T>
GruGates<T> FindGruGates();
template <>
GruGates<float> FindGruGates();
template <>
GruGates<double> FindGruGates();

}  // namespace rnnserve::cpu
