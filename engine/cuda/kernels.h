// SPDX-License-Identifier: Apache-2.0
// Launchers of the device kernels; plain C++, so that only kernels.cu needs nvcc. All are asynchronous on `stream` and
// report launch errors through cudaGetLastError.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/packing.h"
#include "engine/cuda/rows.h"
#include "engine/cuda/units.h"

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

void LaunchWipe(const SpentSlot* slots, int count, cudaStream_t stream);

template <typename T>
void LaunchLstm(const LstmStep<T>& step, cudaStream_t stream);

template <typename T>
void LaunchGruLinear(const GruStep<T>& step, cudaStream_t stream);  // linear_before_reset != 0
template <typename T>
void LaunchGruReset(const GruStep<T>& step, cudaStream_t stream);  // z into pre, r (.) h into reset_h
template <typename T>
void LaunchGruBlend(const GruStep<T>& step, cudaStream_t stream);  // h from pre, whose h block has both products

template <typename T>
void LaunchRnn(const RnnStep<T>& step, cudaStream_t stream);

}  // namespace rnnserve::cuda
