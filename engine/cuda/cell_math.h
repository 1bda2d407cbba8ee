// SPDX-License-Identifier: Apache-2.0
// The element-wise part of the cells (recurrent-operators.md, sections 5 to 8), for one hidden unit: everything of a
// step but the matrix products. Used by the device kernels and, in a host build, by the tests.
#pragma once

#include <cmath>

#include "engine/cuda/host_device.h"
#include "engine/plugin/engine_abi.h"

namespace rnnserve::cuda {

// The overloads by type: without them a host build would compute floats in double.
using std::exp;
using std::expm1;
using std::fabs;
using std::isinf;
using std::log1p;
using std::tanh;

template <typename T>
struct ActivationFn {
  int kind;  // RNNSERVE_RELU ...
  T alpha;
  T beta;
};

// The equations without sizes and weights, as kernels take them by value.
template <typename T>
struct CellMath {
  ActivationFn<T> f, g, h;
  T clip;  // infinity: none
  bool clip_cell_input;
  bool input_forget;
};

// NaN passes through every function: comparisons are written so that NaN takes the branch that returns v.
template <typename T>
RNNSERVE_HOST_DEVICE T Clamp(T v, T bound) {
  return v < -bound ? -bound : v > bound ? bound : v;
}

template <typename T>
RNNSERVE_HOST_DEVICE T Sigmoid(T v) {
  // By the sign of v: exp never overflows.
  const T e = exp(-fabs(v));
  const T small = e / (T(1) + e);
  return v < T(0) ? small : T(1) / (T(1) + e);
}

template <typename T>
RNNSERVE_HOST_DEVICE T Activate(const ActivationFn<T>& fn, T v) {
  switch (fn.kind) {
    case RNNSERVE_RELU:
      return v < T(0) ? T(0) : v;
    case RNNSERVE_TANH:
      return tanh(v);
    case RNNSERVE_SIGMOID:
      return Sigmoid(v);
    case RNNSERVE_AFFINE:
      return fn.alpha * v + fn.beta;
    case RNNSERVE_LEAKY_RELU:
      return v < T(0) ? fn.alpha * v : v;
    case RNNSERVE_THRESHOLDED_RELU:
      return v < fn.alpha ? T(0) : v;
    case RNNSERVE_SCALED_TANH:
      return fn.alpha * tanh(fn.beta * v);
    case RNNSERVE_HARD_SIGMOID: {
      const T line = fn.alpha * v + fn.beta;
      return line < T(0) ? T(0) : line > T(1) ? T(1) : line;
    }
    case RNNSERVE_ELU:
      return v < T(0) ? fn.alpha * expm1(v) : v;
    case RNNSERVE_SOFTSIGN:
      return isinf(v) ? (v < T(0) ? T(-1) : T(1)) : v / (T(1) + fabs(v));
    case RNNSERVE_SOFTPLUS:
      return (v < T(0) ? T(0) : v) + log1p(exp(-fabs(v)));
    default:
      return v;
  }
}

// Pre-activations of one LSTM unit, biases added, peepholes not.
template <typename T>
struct LstmGates {
  T i, o, f, c;
};
template <typename T>
struct Peephole {
  T i, o, f;
};
template <typename T>
struct LstmOut {
  T h, c;
};

// p null: no peephole. (Zeros would not do: 0 * infinity is NaN.)
template <typename T>
RNNSERVE_HOST_DEVICE LstmOut<T> LstmUnit(const CellMath<T>& m, const LstmGates<T>& pre, const Peephole<T>* p, T c) {
  const T i = Activate(m.f, Clamp(p ? pre.i + p->i * c : pre.i, m.clip));
  const T f = m.input_forget ? T(1) - i : Activate(m.f, Clamp(p ? pre.f + p->f * c : pre.f, m.clip));
  const T n = Activate(m.g, Clamp(pre.c, m.clip));
  const T cell = f * c + i * n;
  const T o = Activate(m.f, Clamp(p ? pre.o + p->o * cell : pre.o, m.clip));
  return {o * Activate(m.h, m.clip_cell_input ? Clamp(cell, m.clip) : cell), cell};
}

template <typename T>
RNNSERVE_HOST_DEVICE T GruGate(const CellMath<T>& m, T pre) {
  return Activate(m.f, Clamp(pre, m.clip));
}

// linear_before_reset = 0: `pre` = Wh x + Rh (r (.) h) + both biases. Else: Wh x + Wbh + r (.) (Rh h + Rbh).
template <typename T>
RNNSERVE_HOST_DEVICE T GruBlend(const CellMath<T>& m, T pre, T z, T h) {
  const T n = Activate(m.g, Clamp(pre, m.clip));
  return (T(1) - z) * n + z * h;
}

template <typename T>
RNNSERVE_HOST_DEVICE T RnnUnit(const CellMath<T>& m, T pre) {
  return Activate(m.f, Clamp(pre, m.clip));
}

template <typename T>
inline CellMath<T> MakeCellMath(const rnnserve_cell& cell) {
  const auto fn = [](const rnnserve_activation& a) {
    return ActivationFn<T>{a.kind, static_cast<T>(a.alpha), static_cast<T>(a.beta)};
  };
  return {fn(cell.activations[0]),   fn(cell.activations[1]),   fn(cell.activations[2]),
          static_cast<T>(cell.clip), cell.clip_cell_input != 0, cell.input_forget != 0};
}

}  // namespace rnnserve::cuda
