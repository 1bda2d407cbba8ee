// SPDX-License-Identifier: Apache-2.0
// Launchers of the device kernels; plain C++, so that only kernels.cu needs nvcc. All are asynchronous on `stream` and
// report launch errors through cudaGetLastError.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/cell_math.h"
#include "engine/cuda/packing.h"

namespace rnnserve::cuda {

// Types are the ABI's (RNNSERVE_FLOAT ...). Valid pairs: equal ones, and a 16-bit type with float.
void LaunchPack(int staged_type, const void* staged, int packed_type, void* packed, const Walk* walks,
                const int64_t* offsets, const Block& block, int64_t width, cudaStream_t stream);
void LaunchUnpack(int packed_type, const void* packed, int staged_type, void* staged, const Walk* walks,
                  const int64_t* offsets, const Block& block, int64_t width, cudaStream_t stream);

// State slots hold h, then c (if has_c), `hidden` elements each. slots[r] NULL: zeros. h and c are [rows, hidden].
void LaunchGatherStates(int slot_type, const void* const* slots, int packed_type, void* h, void* c, int rows,
                        int64_t hidden, cudaStream_t stream);
void LaunchScatterStates(int packed_type, const void* h, const void* c, int slot_type, void* const* slots, int rows,
                         int64_t hidden, cudaStream_t stream);

// One step of `rows` rows. `pre` holds the products of the step; bias = Wb + Rb.
template <typename T>
struct LstmStep {
  const T* pre;   // [rows, 4H]: i, o, f, c
  const T* bias;  // [4H]
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
void LaunchLstm(const LstmStep<T>& step, cudaStream_t stream);

template <typename T>
struct GruStep {
  T* pre;              // [rows, 3H]: z, r, h
  const T* recurrent;  // [rows, 3H], linear_before_reset only
  const T* wb;         // [3H]
  const T* rb;         // [3H]
  const T* h_in;
  T* reset_h;          // [rows, H], without linear_before_reset: r (.) h
  T* h_out;
  T* y;
  int rows;
  int64_t hidden;
  CellMath<T> math;
};
template <typename T>
void LaunchGruLinear(const GruStep<T>& step, cudaStream_t stream);  // linear_before_reset != 0
template <typename T>
void LaunchGruReset(const GruStep<T>& step, cudaStream_t stream);   // z into pre, r (.) h into reset_h
template <typename T>
void LaunchGruBlend(const GruStep<T>& step, cudaStream_t stream);   // h from pre, whose h block has both products

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
void LaunchRnn(const RnnStep<T>& step, cudaStream_t stream);

}  // namespace rnnserve::cuda
