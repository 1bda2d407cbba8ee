// SPDX-License-Identifier: Apache-2.0
// The recurrence of a whole block in one launch, float32. Each processor keeps the recurrent weights of a few hidden
// units in its shared memory from step to step, computes these units for all rows, and reads the other units of h from
// what the others wrote to y. What it saves is two or three launches a step, and reading R again at each.
//
// The idea: Diamos et al., "Persistent RNNs" (ICML 2016). Here sums are plain float32 and functions those of
// cell_math.h, so that every cell of the general path runs with the general path's errors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/cell_math.h"
#include "engine/cuda/resident_plan.h"

namespace rnnserve::cuda {

// One block: see Work and GeneralPath. h_in and c_in are not written; y holds h of every step.
struct ResidentRun {
  int kind;  // RNNSERVE_LSTM ...
  bool linear_before_reset;
  float* pre;             // [rows, gates * H]: W x of all steps; GRU overwrites its z block without linear_before_reset
  const float* r;         // [gates * H, H]
  const float* wb;        // [gates * H]
  const float* rb;        // [gates * H]
  const float* peephole;  // [3H]: i, o, f; or null
  const float* h_in;      // [active, H]
  const float* c_in;
  float* h_out;
  float* c_out;
  float* reset_h;          // [active, H], GRU without linear_before_reset: r (.) h
  float* y;                // [rows, H]
  unsigned* arrivals;      // 0 before the launch
  const int64_t* offsets;  // on the device: of packed rows, `steps` of them
  int64_t rows;
  int steps;
  int hidden;
  CellMath<float> math;
};

// Asynchronous on `stream`; reports errors through cudaGetLastError.
void LaunchResident(const ResidentRun& run, const ResidentPlan& plan, cudaStream_t stream);

}  // namespace rnnserve::cuda
