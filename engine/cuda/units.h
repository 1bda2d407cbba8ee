// SPDX-License-Identifier: Apache-2.0
// One step of many rows, unit by unit: what a thread of the gate kernels does. In a host build the tests do the same.
// `at` counts units, row by row: row at / H, unit at % H.
#pragma once

#include <cstdint>

#include "engine/cuda/cell_math.h"

namespace rnnserve::cuda {

// One step of `rows` rows. `pre` holds the products of the step; bias = Wb + Rb.
template <typename T>
struct LstmStep {
  const T* pre;       // [rows, 4H]: i, o, f, c
  const T* bias;      // [4H]
  const T* peephole;  // [3H]: i, o, f; or null
  const T* c_in;
  T* c_out;
  T* h_out;
  T* y;
  int rows;
  int64_t hidden;
  CellMath<T> math;
};

template <typename T>
struct GruStep {
  T* pre;              // [rows, 3H]: z, r, h
  const T* recurrent;  // [rows, 3H], linear_before_reset only
  const T* wb;         // [3H]
  const T* rb;         // [3H]
  const T* h_in;
  T* reset_h;  // [rows, H], without linear_before_reset: r (.) h
  T* h_out;
  T* y;
  int rows;
  int64_t hidden;
  CellMath<T> math;
};

template <typename T>
struct RnnStep {
  const T* pre;
  const T* bias;
  T* h_out;
  T* y;
  int rows;
  int64_t hidden;
  CellMath<T> math;
};

template <typename T>
RNNSERVE_HOST_DEVICE void LstmAt(const LstmStep<T>& s, int64_t at) {
  const int64_t hidden = s.hidden;
  const int64_t row = at / hidden;
  const int64_t k = at - row * hidden;
  const T* pre = s.pre + row * 4 * hidden + k;
  const T* bias = s.bias + k;
  const LstmGates<T> gates{pre[0] + bias[0], pre[hidden] + bias[hidden], pre[2 * hidden] + bias[2 * hidden],
                           pre[3 * hidden] + bias[3 * hidden]};
  Peephole<T> p{};
  if (s.peephole != nullptr) p = {s.peephole[k], s.peephole[hidden + k], s.peephole[2 * hidden + k]};
  const LstmOut<T> out = LstmUnit(s.math, gates, s.peephole != nullptr ? &p : nullptr, s.c_in[at]);
  s.c_out[at] = out.c;
  s.h_out[at] = out.h;
  s.y[at] = out.h;
}

// linear_before_reset != 0.
template <typename T>
RNNSERVE_HOST_DEVICE void GruLinearAt(const GruStep<T>& s, int64_t at) {
  const int64_t hidden = s.hidden;
  const int64_t row = at / hidden;
  const int64_t k = at - row * hidden;
  const T* x = s.pre + row * 3 * hidden + k;
  const T* h = s.recurrent + row * 3 * hidden + k;
  const T* wb = s.wb + k;
  const T* rb = s.rb + k;
  const T z = GruGate(s.math, x[0] + h[0] + (wb[0] + rb[0]));
  const T r = GruGate(s.math, x[hidden] + h[hidden] + (wb[hidden] + rb[hidden]));
  const T pre = x[2 * hidden] + wb[2 * hidden] + r * (h[2 * hidden] + rb[2 * hidden]);
  const T out = GruBlend(s.math, pre, z, s.h_in[at]);
  s.h_out[at] = out;
  s.y[at] = out;
}

// z into pre, r (.) h into reset_h.
template <typename T>
RNNSERVE_HOST_DEVICE void GruResetAt(const GruStep<T>& s, int64_t at) {
  const int64_t hidden = s.hidden;
  const int64_t row = at / hidden;
  const int64_t k = at - row * hidden;
  T* pre = s.pre + row * 3 * hidden + k;
  const T* wb = s.wb + k;
  const T* rb = s.rb + k;
  pre[0] = GruGate(s.math, pre[0] + (wb[0] + rb[0]));
  const T r = GruGate(s.math, pre[hidden] + (wb[hidden] + rb[hidden]));
  s.reset_h[at] = r * s.h_in[at];
}

// h from pre, whose h block has both products.
template <typename T>
RNNSERVE_HOST_DEVICE void GruBlendAt(const GruStep<T>& s, int64_t at) {
  const int64_t hidden = s.hidden;
  const int64_t row = at / hidden;
  const int64_t k = at - row * hidden;
  const T* pre = s.pre + row * 3 * hidden + k;
  const T n = pre[2 * hidden] + (s.wb[2 * hidden + k] + s.rb[2 * hidden + k]);
  const T out = GruBlend(s.math, n, pre[0], s.h_in[at]);
  s.h_out[at] = out;
  s.y[at] = out;
}

template <typename T>
RNNSERVE_HOST_DEVICE void RnnAt(const RnnStep<T>& s, int64_t at) {
  const T out = RnnUnit(s.math, s.pre[at] + s.bias[at % s.hidden]);
  s.h_out[at] = out;
  s.y[at] = out;
}

}  // namespace rnnserve::cuda
