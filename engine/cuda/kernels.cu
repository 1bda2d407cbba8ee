// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/element.h"
#include "engine/cuda/kernels.h"

namespace rnnserve::cuda {
namespace {

constexpr int kThreads = 256;

int Blocks(int64_t work) {
  const int64_t blocks = (work + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < 65535 ? (blocks > 0 ? blocks : 1) : 65535);
}

template <typename From, typename To>
__device__ void Convert(const From& from, To& to) {
  Narrow(Widen(from), to);
}

// Threads of a block share a row where rows are wide, and split into more rows where they are narrow.
dim3 RowThreads(int64_t width) {
  int x = 1;
  while (x < kThreads && x < width) x *= 2;
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(kThreads / x));
}
int RowBlocks(int64_t rows, dim3 threads) {
  const int64_t blocks = (rows + threads.y - 1) / threads.y;
  return static_cast<int>(blocks < 65535 ? (blocks > 0 ? blocks : 1) : 65535);
}

template <typename From, typename To>
__global__ void PackKernel(const From* staged, To* packed, const Walk* walks, const int64_t* offsets, int steps,
                           int64_t rows, int64_t width) {
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<int64_t>(gridDim.x) * blockDim.y) {
    const From* source = staged + StagedOffset(walks, offsets, steps, row);
    for (int64_t k = threadIdx.x; k < width; k += blockDim.x) Convert(source[k], packed[row * width + k]);
  }
}

template <typename From, typename To>
__global__ void UnpackKernel(const From* packed, To* staged, const Walk* walks, const int64_t* offsets, int steps,
                             int64_t rows, int64_t width) {
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<int64_t>(gridDim.x) * blockDim.y) {
    const int64_t at = StagedOffset(walks, offsets, steps, row);
    if (at < 0) continue;
    for (int64_t k = threadIdx.x; k < width; k += blockDim.x) Convert(packed[row * width + k], staged[at + k]);
  }
}

template <typename Slot, typename Packed>
__global__ void GatherStatesKernel(const void* const* slots, Packed* h, Packed* c, int rows, int64_t hidden) {
  for (int row = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y); row < rows;
       row += static_cast<int>(gridDim.x * blockDim.y)) {
    const auto* slot = static_cast<const Slot*>(slots[row]);
    for (int64_t k = threadIdx.x; k < hidden; k += blockDim.x) {
      const int64_t at = row * hidden + k;
      Narrow(slot == nullptr ? Slot(0) : slot[k], h[at]);
      if (c != nullptr) Narrow(slot == nullptr ? Slot(0) : slot[hidden + k], c[at]);
    }
  }
}

template <typename Packed, typename Slot>
__global__ void ScatterStatesKernel(const Packed* h, const Packed* c, void* const* slots, int rows, int64_t hidden) {
  for (int row = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y); row < rows;
       row += static_cast<int>(gridDim.x * blockDim.y)) {
    auto* slot = static_cast<Slot*>(slots[row]);
    for (int64_t k = threadIdx.x; k < hidden; k += blockDim.x) {
      const int64_t at = row * hidden + k;
      slot[k] = Widen(h[at]);
      if (c != nullptr) slot[hidden + k] = Widen(c[at]);
    }
  }
}

// Gate kernels: one thread a unit.
#define RNNSERVE_FOR_EACH_UNIT(step)                                                                         \
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < step.rows * step.hidden; \
       at += static_cast<int64_t>(gridDim.x) * blockDim.x)

template <typename T>
__global__ void LstmKernel(LstmStep<T> s) {
  const int64_t hidden = s.hidden;
  RNNSERVE_FOR_EACH_UNIT(s) {
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
}

template <typename T>
__global__ void GruLinearKernel(GruStep<T> s) {
  const int64_t hidden = s.hidden;
  RNNSERVE_FOR_EACH_UNIT(s) {
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
}

template <typename T>
__global__ void GruResetKernel(GruStep<T> s) {
  const int64_t hidden = s.hidden;
  RNNSERVE_FOR_EACH_UNIT(s) {
    const int64_t row = at / hidden;
    const int64_t k = at - row * hidden;
    T* pre = s.pre + row * 3 * hidden + k;
    const T* wb = s.wb + k;
    const T* rb = s.rb + k;
    pre[0] = GruGate(s.math, pre[0] + (wb[0] + rb[0]));
    const T r = GruGate(s.math, pre[hidden] + (wb[hidden] + rb[hidden]));
    s.reset_h[at] = r * s.h_in[at];
  }
}

template <typename T>
__global__ void GruBlendKernel(GruStep<T> s) {
  const int64_t hidden = s.hidden;
  RNNSERVE_FOR_EACH_UNIT(s) {
    const int64_t row = at / hidden;
    const int64_t k = at - row * hidden;
    const T* pre = s.pre + row * 3 * hidden + k;
    const T n = pre[2 * hidden] + (s.wb[2 * hidden + k] + s.rb[2 * hidden + k]);
    const T out = GruBlend(s.math, n, pre[0], s.h_in[at]);
    s.h_out[at] = out;
    s.y[at] = out;
  }
}

template <typename T>
__global__ void RnnKernel(RnnStep<T> s) {
  RNNSERVE_FOR_EACH_UNIT(s) {
    const T out = RnnUnit(s.math, s.pre[at] + s.bias[at % s.hidden]);
    s.h_out[at] = out;
    s.y[at] = out;
  }
}

// Calls `fn` with null pointers of the two element types.
template <typename Fn>
void WithTypes(int from, int to, Fn fn) {
  if (from == RNNSERVE_FLOAT && to == RNNSERVE_FLOAT) return fn(static_cast<float*>(nullptr), static_cast<float*>(nullptr));
  if (from == RNNSERVE_DOUBLE && to == RNNSERVE_DOUBLE) return fn(static_cast<double*>(nullptr), static_cast<double*>(nullptr));
  if (from == RNNSERVE_FLOAT16 && to == RNNSERVE_FLOAT) return fn(static_cast<Half*>(nullptr), static_cast<float*>(nullptr));
  if (from == RNNSERVE_BFLOAT16 && to == RNNSERVE_FLOAT) return fn(static_cast<BFloat16*>(nullptr), static_cast<float*>(nullptr));
  if (from == RNNSERVE_FLOAT && to == RNNSERVE_FLOAT16) return fn(static_cast<float*>(nullptr), static_cast<Half*>(nullptr));
  if (from == RNNSERVE_FLOAT && to == RNNSERVE_BFLOAT16) return fn(static_cast<float*>(nullptr), static_cast<BFloat16*>(nullptr));
  if (from == RNNSERVE_FLOAT16) return fn(static_cast<Half*>(nullptr), static_cast<Half*>(nullptr));
  return fn(static_cast<BFloat16*>(nullptr), static_cast<BFloat16*>(nullptr));
}
// The pairs of a state slot (float or double) and a packed type.
template <typename Fn>
void WithStateTypes(int slot, int packed, Fn fn) {
  if (slot == RNNSERVE_DOUBLE) return fn(static_cast<double*>(nullptr), static_cast<double*>(nullptr));
  if (packed == RNNSERVE_FLOAT16) return fn(static_cast<float*>(nullptr), static_cast<Half*>(nullptr));
  if (packed == RNNSERVE_BFLOAT16) return fn(static_cast<float*>(nullptr), static_cast<BFloat16*>(nullptr));
  return fn(static_cast<float*>(nullptr), static_cast<float*>(nullptr));
}

}  // namespace

void LaunchPack(int staged_type, const void* staged, int packed_type, void* packed, const Walk* walks,
                const int64_t* offsets, const Block& block, int64_t width, cudaStream_t stream) {
  if (width == 0) return;
  const dim3 threads = RowThreads(width);
  WithTypes(staged_type, packed_type, [&]<typename From, typename To>(From*, To*) {
    PackKernel<<<RowBlocks(block.rows, threads), threads, 0, stream>>>(static_cast<const From*>(staged),
                                                                       static_cast<To*>(packed), walks, offsets,
                                                                       block.steps, block.rows, width);
  });
}

void LaunchUnpack(int packed_type, const void* packed, int staged_type, void* staged, const Walk* walks,
                  const int64_t* offsets, const Block& block, int64_t width, cudaStream_t stream) {
  const dim3 threads = RowThreads(width);
  WithTypes(packed_type, staged_type, [&]<typename From, typename To>(From*, To*) {
    UnpackKernel<<<RowBlocks(block.rows, threads), threads, 0, stream>>>(static_cast<const From*>(packed),
                                                                         static_cast<To*>(staged), walks, offsets,
                                                                         block.steps, block.rows, width);
  });
}

void LaunchGatherStates(int slot_type, const void* const* slots, int packed_type, void* h, void* c, int rows,
                        int64_t hidden, cudaStream_t stream) {
  const dim3 threads = RowThreads(hidden);
  WithStateTypes(slot_type, packed_type, [&]<typename Slot, typename Packed>(Slot*, Packed*) {
    GatherStatesKernel<Slot, Packed><<<RowBlocks(rows, threads), threads, 0, stream>>>(
        slots, static_cast<Packed*>(h), static_cast<Packed*>(c), rows, hidden);
  });
}

void LaunchScatterStates(int packed_type, const void* h, const void* c, int slot_type, void* const* slots, int rows,
                         int64_t hidden, cudaStream_t stream) {
  const dim3 threads = RowThreads(hidden);
  WithStateTypes(slot_type, packed_type, [&]<typename Slot, typename Packed>(Slot*, Packed*) {
    ScatterStatesKernel<Packed, Slot><<<RowBlocks(rows, threads), threads, 0, stream>>>(
        static_cast<const Packed*>(h), static_cast<const Packed*>(c), slots, rows, hidden);
  });
}

template <typename T>
void LaunchLstm(const LstmStep<T>& step, cudaStream_t stream) {
  LstmKernel<<<Blocks(step.rows * step.hidden), kThreads, 0, stream>>>(step);
}
template <typename T>
void LaunchGruLinear(const GruStep<T>& step, cudaStream_t stream) {
  GruLinearKernel<<<Blocks(step.rows * step.hidden), kThreads, 0, stream>>>(step);
}
template <typename T>
void LaunchGruReset(const GruStep<T>& step, cudaStream_t stream) {
  GruResetKernel<<<Blocks(step.rows * step.hidden), kThreads, 0, stream>>>(step);
}
template <typename T>
void LaunchGruBlend(const GruStep<T>& step, cudaStream_t stream) {
  GruBlendKernel<<<Blocks(step.rows * step.hidden), kThreads, 0, stream>>>(step);
}
template <typename T>
void LaunchRnn(const RnnStep<T>& step, cudaStream_t stream) {
  RnnKernel<<<Blocks(step.rows * step.hidden), kThreads, 0, stream>>>(step);
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
