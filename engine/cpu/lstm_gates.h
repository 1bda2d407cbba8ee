// SPDX-License-Identifier: Apache-2.0
// The element-wise parts of lstm_step, for a line of units of some rows, on the machine's vector units.
#pragma once

#include <cstddef>

#include "engine/cpu/product.h"

namespace rnnserve::cpu {

// Those units of the states, before and after.
template <typename T>
struct LstmUnits {
  size_t count = 0;  // of rows
  Rows<T> c;
  Rows<T> next_h;
};

// `by_line`: a line of all rows behind the other, i, o, f, n; AddByLine leaves them so.
template <typename T>
struct LstmGates {
  // From inputs and R h, row by row, to c and h, for Sigmoid, Tanh, Tanh without clip; `blocks` lines of units.
  void (*all)(const LstmUnits<T>& units, size_t blocks, Rows<const T> inputs, Rows<const T> state);
  // The same with peepholes: those of i, o and f, `stride` apart. Zeros give the bits of `all`.
  void (*all_with_peephole)(const LstmUnits<T>& units, size_t blocks, Rows<const T> inputs, Rows<const T> state,
                            const T* p, size_t stride);
  // line += p (.) c.
  void (*add_peephole)(const LstmUnits<T>& units, const T* p, T* line);
  // c = f (.) c + i (.) n, and n = c for the way into h().
  void (*update_cell)(const LstmUnits<T>& units, T* by_line);
  // The same with 1 - i for f.
  void (*update_coupled_cell)(const LstmUnits<T>& units, T* by_line);
  // h = o (.) n.
  void (*output)(const LstmUnits<T>& units, const T* by_line);
};

// Those for this machine.
template <typename T>
LstmGates<T> FindLstmGates();
template <>
LstmGates<float> FindLstmGates();
template <>
LstmGates<double> FindLstmGates();

}  // namespace rnnserve::cpu
