// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/geometry.h"
#include "engine/cuda/kernel_types.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/rows.h"

namespace rnnserve::cuda {
namespace {

dim3 Threads(RowThreads threads) {
  return dim3(static_cast<unsigned>(threads.across), static_cast<unsigned>(threads.down));
}

__device__ ThreadPosition Me() { return {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x, threadIdx.y, blockDim.y}; }

#define RNNSERVE_FOR_EACH_ROW(row, rows) for (int64_t row = FirstRow(Me()); row < (rows); row += RowStep(Me()))

template <typename From, typename To>
__global__ void PackKernel(const From* staged, To* packed, const Walk* walks, const int64_t* offsets, int steps,
                           int64_t rows, int64_t width) {
  RNNSERVE_FOR_EACH_ROW(row, rows) PackRow(staged, packed, walks, offsets, steps, row, width, RowShareOf(Me()));
}

template <typename From, typename To>
__global__ void UnpackKernel(const From* packed, To* staged, const Walk* walks, const int64_t* offsets, int steps,
                             int64_t rows, int64_t width) {
  RNNSERVE_FOR_EACH_ROW(row, rows) UnpackRow(packed, staged, walks, offsets, steps, row, width, RowShareOf(Me()));
}

template <typename Slot, typename Packed>
__global__ void GatherStatesKernel(const void* const* slots, Packed* h, Packed* c, int rows, int64_t hidden) {
  RNNSERVE_FOR_EACH_ROW(row, rows) GatherRow(static_cast<const Slot*>(slots[row]), h, c, row, hidden, RowShareOf(Me()));
}

template <typename Packed, typename Slot>
__global__ void ScatterStatesKernel(const Packed* h, const Packed* c, void* const* slots, int rows, int64_t hidden) {
  RNNSERVE_FOR_EACH_ROW(row, rows) ScatterRow(h, c, static_cast<Slot*>(slots[row]), row, hidden, RowShareOf(Me()));
}

__global__ void WipeKernel(const SpentSlot* slots, int count) {
  RNNSERVE_FOR_EACH_ROW(row, count) WipeSlot(slots[row], RowShareOf(Me()));
}

// Gate kernels: one thread a unit.
#define RNNSERVE_FOR_EACH_UNIT(at, step) \
  for (int64_t at = FirstUnit(Me()); at < step.rows * step.hidden; at += UnitStep(Me()))

template <typename T>
__global__ void LstmKernel(LstmStep<T> step) {
  RNNSERVE_FOR_EACH_UNIT(at, step) LstmAt(step, at);
}
template <typename T>
__global__ void GruLinearKernel(GruStep<T> step) {
  RNNSERVE_FOR_EACH_UNIT(at, step) GruLinearAt(step, at);
}
template <typename T>
__global__ void GruResetKernel(GruStep<T> step) {
  RNNSERVE_FOR_EACH_UNIT(at, step) GruResetAt(step, at);
}
template <typename T>
__global__ void GruBlendKernel(GruStep<T> step) {
  RNNSERVE_FOR_EACH_UNIT(at, step) GruBlendAt(step, at);
}
template <typename T>
__global__ void RnnKernel(RnnStep<T> step) {
  RNNSERVE_FOR_EACH_UNIT(at, step) RnnAt(step, at);
}

}  // namespace

void LaunchPack(int staged_type, const void* staged, int packed_type, void* packed, const Walk* walks,
                const int64_t* offsets, const Block& block, int64_t width, cudaStream_t stream) {
  if (width == 0) return;
  const RowThreads threads = RowThreadsOf(width);
  WithTypes(staged_type, packed_type, [&]<typename From, typename To>(From*, To*) {
    PackKernel<<<Blocks(block.rows, threads.down), Threads(threads), 0, stream>>>(
        static_cast<const From*>(staged), static_cast<To*>(packed), walks, offsets, block.steps, block.rows, width);
  });
}

void LaunchUnpack(int packed_type, const void* packed, int staged_type, void* staged, const Walk* walks,
                  const int64_t* offsets, const Block& block, int64_t width, cudaStream_t stream) {
  const RowThreads threads = RowThreadsOf(width);
  WithTypes(packed_type, staged_type, [&]<typename From, typename To>(From*, To*) {
    UnpackKernel<<<Blocks(block.rows, threads.down), Threads(threads), 0, stream>>>(
        static_cast<const From*>(packed), static_cast<To*>(staged), walks, offsets, block.steps, block.rows, width);
  });
}

void LaunchGatherStates(int slot_type, const void* const* slots, int packed_type, void* h, void* c, int rows,
                        int64_t hidden, cudaStream_t stream) {
  const RowThreads threads = RowThreadsOf(hidden);
  WithStateTypes(slot_type, packed_type, [&]<typename Slot, typename Packed>(Slot*, Packed*) {
    GatherStatesKernel<Slot, Packed><<<Blocks(rows, threads.down), Threads(threads), 0, stream>>>(
        slots, static_cast<Packed*>(h), static_cast<Packed*>(c), rows, hidden);
  });
}

void LaunchScatterStates(int packed_type, const void* h, const void* c, int slot_type, void* const* slots, int rows,
                         int64_t hidden, cudaStream_t stream) {
  const RowThreads threads = RowThreadsOf(hidden);
  WithStateTypes(slot_type, packed_type, [&]<typename Slot, typename Packed>(Slot*, Packed*) {
    ScatterStatesKernel<Packed, Slot><<<Blocks(rows, threads.down), Threads(threads), 0, stream>>>(
        static_cast<const Packed*>(h), static_cast<const Packed*>(c), slots, rows, hidden);
  });
}

void LaunchWipe(const SpentSlot* slots, int count, cudaStream_t stream) {
  const RowThreads threads = RowThreadsOf(kThreads);  // a block a slot
  WipeKernel<<<Blocks(count, threads.down), Threads(threads), 0, stream>>>(slots, count);
}

template <typename T>
void LaunchLstm(const LstmStep<T>& step, cudaStream_t stream) {
  LstmKernel<<<Blocks(step.rows * step.hidden, kThreads), kThreads, 0, stream>>>(step);
}
template <typename T>
void LaunchGruLinear(const GruStep<T>& step, cudaStream_t stream) {
  GruLinearKernel<<<Blocks(step.rows * step.hidden, kThreads), kThreads, 0, stream>>>(step);
}
template <typename T>
void LaunchGruReset(const GruStep<T>& step, cudaStream_t stream) {
  GruResetKernel<<<Blocks(step.rows * step.hidden, kThreads), kThreads, 0, stream>>>(step);
}
template <typename T>
void LaunchGruBlend(const GruStep<T>& step, cudaStream_t stream) {
  GruBlendKernel<<<Blocks(step.rows * step.hidden, kThreads), kThreads, 0, stream>>>(step);
}
template <typename T>
void LaunchRnn(const RnnStep<T>& step, cudaStream_t stream) {
  RnnKernel<<<Blocks(step.rows * step.hidden, kThreads), kThreads, 0, stream>>>(step);
}

template void LaunchLstm(const LstmStep<float>&, cudaStream_t);
template void LaunchLstm(const LstmStep<double>&, cudaStream_t);
template void LaunchGruLinear(const GruStep<float>&, cudaStream_t);
template void LaunchGruLinear(const GruStep<double>&, cudaStream_t);
template void LaunchGruReset(const GruStep<float>&, cudaStream_t);
template void LaunchGruReset(const GruStep<double>&, cudaStream_t);
template void LaunchGruBlend(const GruStep<float>&, cudaStream_t);
template void LaunchGruBlend(const GruStep<double>&, cudaStream_t);
template void LaunchRnn(const RnnStep<float>&, cudaStream_t);
template void LaunchRnn(const RnnStep<double>&, cudaStream_t);

}  // namespace rnnserve::cuda
