// SPDX-License-Identifier: Apache-2.0
#include <cuda_pipeline_primitives.h>

#include "engine/cuda/resident.h"

namespace rnnserve::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kThreads = kResidentWarps * kLanes;
constexpr unsigned kAll = 0xffffffffu;
constexpr int kTileColumns = 4;

// Of 2 * kHalf sums a lane keeps the half that its bit names, and adds to it what the lane with the other bit held.
// Each halving of the lanes leaves lane l with sum l.
template <int kHalf>
__device__ void AddHalves(float* sums, int lane) {
  const bool upper = (lane & kHalf) != 0;
#pragma unroll
  for (int k = 0; k < kHalf; ++k) {
    const float kept = upper ? sums[k + kHalf] : sums[k];
    const float sent = upper ? sums[k] : sums[k + kHalf];
    sums[k] = kept + __shfl_xor_sync(kAll, sent, kHalf);
  }
}

// The products of kRows rows of h with kColumns columns, summed over the lanes, each of which took every 32nd group of
// four elements. Lane l gets row l / 4, column l % 4; of one row, lanes 4 and up get the same as lanes 0 to 3.
template <int kColumns, int kRows>
__device__ float TileSum(const float4* h, const float4* weights, int quads, int lane) {
  float sums[kRows * kTileColumns] = {};
  for (int q = lane; q < quads; q += kLanes) {
    float4 w[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) w[c] = weights[c * quads + q];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 v = h[r * quads + q];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        float& sum = sums[r * kTileColumns + c];
        sum = fmaf(v.x, w[c].x, sum);
        sum = fmaf(v.y, w[c].y, sum);
        sum = fmaf(v.z, w[c].z, sum);
        sum = fmaf(v.w, w[c].w, sum);
      }
    }
  }
  if constexpr (kRows == 8) {
    AddHalves<16>(sums, lane);
    AddHalves<8>(sums, lane);
    AddHalves<4>(sums, lane);
  }
  AddHalves<2>(sums, lane);
  AddHalves<1>(sums, lane);
  if constexpr (kRows == 1) {
    for (int apart = 4; apart < kLanes; apart *= 2) sums[0] += __shfl_xor_sync(kAll, sums[0], apart);
  }
  return sums[0];
}

// Of the four lanes that share a row, what lane `column` has.
__device__ float FromColumn(float value, int lane, int column) {
  return __shfl_sync(kAll, value, (lane & ~(kTileColumns - 1)) + column);
}

// A step, and where a lane stands in it.
struct Step {
  const float* h;     // [active, H]: of the step before
  int64_t first_row;  // packed row of sequence 0
  int active;         // sequences with this step
  int continuing;     // of these, with a next one
  bool is_first;
};
struct Place {
  int sequence;
  int unit;
  int column;
  bool writes;  // false: beyond the rows, or a lane that repeats another's sum
  float h;      // of the step before, this unit
};

// The parts of the four cells besides the products: Load before a tile's sums are formed, Finish with them.
struct Lstm {
  static constexpr int kColumns = 4;
  float pre, c;
  __device__ void Load(const ResidentRun& run, const Step& step, const Place& at) {
    const int64_t hidden = run.hidden;
    pre = c = 0;
    if (!at.writes) return;
    const int64_t gate = at.column * hidden + at.unit;
    pre = run.pre[(step.first_row + at.sequence) * kColumns * hidden + gate] + (run.wb[gate] + run.rb[gate]);
    c = (step.is_first ? run.c_in : run.c_out)[at.sequence * hidden + at.unit];
  }
  __device__ void Finish(const ResidentRun& run, const Step& step, const Place& at, int lane, float sum) {
    const int64_t hidden = run.hidden;
    const float gate = pre + sum;
    const LstmGates<float> gates{FromColumn(gate, lane, 0), FromColumn(gate, lane, 1), FromColumn(gate, lane, 2),
                                 FromColumn(gate, lane, 3)};
    Peephole<float> p{};
    if (run.peephole != nullptr) {
      p = {run.peephole[at.unit], run.peephole[hidden + at.unit], run.peephole[2 * hidden + at.unit]};
    }
    const LstmOut<float> out = LstmUnit(run.math, gates, run.peephole != nullptr ? &p : nullptr, c);
    if (!at.writes) return;
    const int64_t state = at.sequence * hidden + at.unit;
    if (at.column == 0) run.y[step.first_row * hidden + state] = out.h;
    if (at.column == 1) run.c_out[state] = out.c;
    if (at.column == 2 && at.sequence >= step.continuing) run.h_out[state] = out.h;
  }
};

struct GruLinear {
  static constexpr int kColumns = 3;
  float pre, bias_of_h;
  __device__ void Load(const ResidentRun& run, const Step& step, const Place& at) {
    const int64_t hidden = run.hidden;
    pre = bias_of_h = 0;
    if (!at.writes || at.column >= kColumns) return;
    const int64_t gate = at.column * hidden + at.unit;
    pre = run.pre[(step.first_row + at.sequence) * kColumns * hidden + gate] + run.wb[gate];
    bias_of_h = run.rb[gate];
  }
  __device__ void Finish(const ResidentRun& run, const Step& step, const Place& at, int lane, float sum) {
    const int64_t hidden = run.hidden;
    const float of_h = sum + bias_of_h;
    const float z = GruGate(run.math, FromColumn(pre + of_h, lane, 0));
    const float r = GruGate(run.math, FromColumn(pre + of_h, lane, 1));
    const float candidate = FromColumn(pre, lane, 2) + r * FromColumn(of_h, lane, 2);
    const float out = GruBlend(run.math, candidate, z, at.h);
    if (!at.writes) return;
    const int64_t state = at.sequence * hidden + at.unit;
    if (at.column == 0) run.y[step.first_row * hidden + state] = out;
    if (at.column == 1 && at.sequence >= step.continuing) run.h_out[state] = out;
  }
};

// z into pre, r (.) h into reset_h.
struct GruReset {
  static constexpr int kColumns = 2;
  float pre;
  __device__ void Load(const ResidentRun& run, const Step& step, const Place& at) {
    const int64_t hidden = run.hidden;
    pre = 0;
    if (!at.writes || at.column >= kColumns) return;
    const int64_t gate = at.column * hidden + at.unit;
    pre = run.pre[(step.first_row + at.sequence) * 3 * hidden + gate] + (run.wb[gate] + run.rb[gate]);
  }
  __device__ void Finish(const ResidentRun& run, const Step& step, const Place& at, int, float sum) {
    const int64_t hidden = run.hidden;
    if (!at.writes || at.column >= kColumns) return;
    const float gate = GruGate(run.math, pre + sum);
    if (at.column == 0) run.pre[(step.first_row + at.sequence) * 3 * hidden + at.unit] = gate;
    if (at.column == 1) run.reset_h[at.sequence * hidden + at.unit] = gate * at.h;
  }
};

// h from z in pre and the product with r (.) h, which is what `step.h` holds here.
struct GruBlended {
  static constexpr int kColumns = 1;
  const float* h_before;
  float pre, z, h;
  __device__ void Load(const ResidentRun& run, const Step& step, const Place& at) {
    const int64_t hidden = run.hidden;
    pre = z = h = 0;
    if (!at.writes) return;
    const float* const row = run.pre + (step.first_row + at.sequence) * 3 * hidden + at.unit;
    z = row[0];
    pre = row[2 * hidden] + (run.wb[2 * hidden + at.unit] + run.rb[2 * hidden + at.unit]);
    h = __ldcg(h_before + at.sequence * hidden + at.unit);
  }
  __device__ void Finish(const ResidentRun& run, const Step& step, const Place& at, int, float sum) {
    const int64_t hidden = run.hidden;
    if (!at.writes || at.column != 0) return;
    const float out = GruBlend(run.math, pre + sum, z, h);
    const int64_t state = at.sequence * hidden + at.unit;
    run.y[step.first_row * hidden + state] = out;
    if (at.sequence >= step.continuing) run.h_out[state] = out;
  }
};

// Four units a tile.
struct Rnn {
  static constexpr int kColumns = 4;
  float pre;
  __device__ void Load(const ResidentRun& run, const Step& step, const Place& at) {
    pre = 0;
    if (!at.writes) return;
    pre = run.pre[(step.first_row + at.sequence) * run.hidden + at.unit] + (run.wb[at.unit] + run.rb[at.unit]);
  }
  __device__ void Finish(const ResidentRun& run, const Step& step, const Place& at, int, float sum) {
    if (!at.writes) return;
    const float out = RnnUnit(run.math, pre + sum);
    const int64_t state = at.sequence * static_cast<int64_t>(run.hidden) + at.unit;
    run.y[step.first_row * run.hidden + state] = out;
    if (at.sequence >= step.continuing) run.h_out[state] = out;
  }
};

// Waits until all blocks of threads have come here for the `time`th time. What they wrote before is seen after it.
// Unlike cooperative_groups' grid.sync() it does not wait for its own arrival's way to memory and back.
__device__ void MeetAll(unsigned* arrivals, unsigned time) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrivals) : "memory");
    unsigned seen;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrivals) : "memory");
    } while (seen < time * gridDim.x);
  }
  __syncthreads();
}

// The part of a block of threads.
struct Share {
  const float4* weights;  // in shared memory, a row of R a column
  float4* stages;         // in shared memory, one or two
  int quads;              // H / 4
  int stage_rows;
  int first_unit;
  int tiles;         // of columns
  int tile_units;    // 1, or 4
  int tile_columns;  // from tile to tile in `weights`
  int first_column;  // of a tile
};

// Copies rows of h into a stage, past the first-level cache, which does not see what other processors write.
__device__ void LoadStage(const Share& share, const float* h, int rows, float4* stage) {
  const auto* source = reinterpret_cast<const float4*>(h);
  for (int k = static_cast<int>(threadIdx.x); k < rows * share.quads; k += kThreads) {
#if __CUDA_ARCH__ >= 800
    __pipeline_memcpy_async(stage + k, source + k, sizeof(float4));
#else
    stage[k] = __ldcg(source + k);
#endif
  }
  __pipeline_commit();
}

// All rows of a step, stage by stage; the next stage is copied while one is computed with.
template <int kRows, typename Cell>
__device__ void Sweep(const ResidentRun& run, const Step& step, const Share& share, Cell cell) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const int stage_quads = share.stage_rows * share.quads;
  const auto rows_of = [&](int first) { return min(share.stage_rows, step.active - first); };
  LoadStage(share, step.h, rows_of(0), share.stages);
  int current = 0;
  for (int first = 0; first < step.active; first += share.stage_rows, current ^= 1) {
    const int next = first + share.stage_rows;
    if (next < step.active) {
      LoadStage(share, step.h + static_cast<int64_t>(next) * run.hidden, rows_of(next),
                share.stages + (current ^ 1) * stage_quads);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    const float4* const stage = share.stages + current * stage_quads;
    const int row_tiles = (rows_of(first) + kRows - 1) / kRows;
    for (int work = warp; work < row_tiles * share.tiles; work += kResidentWarps) {
      const int tile = work % share.tiles;
      const int row = work / share.tiles * kRows + (kRows == 1 ? 0 : lane / kTileColumns);
      Place at;
      at.column = lane % kTileColumns;
      at.sequence = first + row;
      at.unit = share.first_unit + tile * share.tile_units + (share.tile_units == 1 ? 0 : at.column);
      at.writes = at.sequence < step.active && (kRows == 8 || lane < kTileColumns);
      at.h = reinterpret_cast<const float*>(stage)[row * run.hidden + at.unit];
      cell.Load(run, step, at);
      const float sum = TileSum<Cell::kColumns, kRows>(
          stage + work / share.tiles * kRows * share.quads,
          share.weights + (tile * share.tile_columns + share.first_column) * share.quads, share.quads, lane);
      cell.Finish(run, step, at, lane, sum);
    }
    __syncthreads();
  }
}

template <int kKind, bool kLinear, int kRows>
__global__ void __launch_bounds__(kThreads, 1) ResidentKernel(ResidentRun run, ResidentPlan plan) {
  extern __shared__ float4 shared[];
  constexpr int kGates = kKind == RNNSERVE_LSTM ? 4 : kKind == RNNSERVE_GRU ? 3 : 1;
  unsigned meetings = 0;
  Share share;
  share.quads = run.hidden / 4;
  share.stage_rows = plan.stage_rows;
  share.first_unit = static_cast<int>(blockIdx.x) * plan.units;
  const int units = min(plan.units, run.hidden - share.first_unit);
  share.tile_units = kKind == RNNSERVE_RNN ? 4 : 1;
  share.tiles = units / share.tile_units;
  share.tile_columns = kKind == RNNSERVE_RNN ? 4 : kGates;
  share.first_column = 0;
  share.weights = shared;
  share.stages = shared + plan.units * kGates * share.quads;
  for (int k = static_cast<int>(threadIdx.x); k < units * kGates * share.quads; k += kThreads) {
    const int column = k / share.quads;
    const int64_t row = static_cast<int64_t>(column % kGates) * run.hidden + share.first_unit + column / kGates;
    shared[k] = reinterpret_cast<const float4*>(run.r)[row * share.quads + k % share.quads];
  }
  // Sweep's first barrier of the block stands between this and the first read.

  Step step{run.h_in, 0, 0, 0, true};
  for (int t = 0; t < run.steps; ++t) {
    const int64_t end = t + 1 < run.steps ? run.offsets[t + 1] : run.rows;
    const int64_t end_of_next = t + 2 < run.steps ? run.offsets[t + 2] : run.rows;
    step.first_row = run.offsets[t];
    step.active = static_cast<int>(end - step.first_row);
    step.continuing = t + 1 < run.steps ? static_cast<int>(end_of_next - end) : 0;
    if constexpr (kKind == RNNSERVE_LSTM) {
      Sweep<kRows>(run, step, share, Lstm{});
    } else if constexpr (kKind == RNNSERVE_RNN) {
      Sweep<kRows>(run, step, share, Rnn{});
    } else if constexpr (kLinear) {
      Sweep<kRows>(run, step, share, GruLinear{});
    } else {
      Sweep<kRows>(run, step, share, GruReset{});
      MeetAll(run.arrivals, ++meetings);
      Step second = step;
      second.h = run.reset_h;
      Share last_column = share;
      last_column.first_column = 2;
      Sweep<kRows>(run, second, last_column, GruBlended{step.h, 0, 0, 0});
    }
    if (t + 1 < run.steps) MeetAll(run.arrivals, ++meetings);
    step.h = run.y + step.first_row * run.hidden;
    step.is_first = false;
  }
}

template <int kKind, bool kLinear, int kRows>
void Launch(ResidentRun run, ResidentPlan plan, cudaStream_t stream) {
  const auto kernel = &ResidentKernel<kKind, kLinear, kRows>;
  const auto shared = static_cast<int>(plan.shared_bytes);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared) != cudaSuccess) return;
  void* arguments[] = {&run, &plan};
  cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(plan.blocks)),
                              dim3(kThreads), arguments, plan.shared_bytes, stream);
}

template <int kKind, bool kLinear>
void Launch(const ResidentRun& run, const ResidentPlan& plan, cudaStream_t stream) {
  plan.tile_rows == 1 ? Launch<kKind, kLinear, 1>(run, plan, stream) : Launch<kKind, kLinear, 8>(run, plan, stream);
}

}  // namespace

void LaunchResident(const ResidentRun& run, const ResidentPlan& plan, cudaStream_t stream) {
  if (run.kind == RNNSERVE_LSTM) return Launch<RNNSERVE_LSTM, false>(run, plan, stream);
  if (run.kind == RNNSERVE_RNN) return Launch<RNNSERVE_RNN, false>(run, plan, stream);
  run.linear_before_reset ? Launch<RNNSERVE_GRU, true>(run, plan, stream)
                          : Launch<RNNSERVE_GRU, false>(run, plan, stream);
}

}  // namespace rnnserve::cuda
