// SPDX-License-Identifier: Apache-2.0
// What the ways to compute a block have in common.
#pragma once

#include <cstdint>

#include "engine/cuda/execution_context.h"
#include "engine/cuda/packing.h"
#include "engine/plugin/engine_abi.h"

namespace rnnserve::cuda {

inline int64_t GateCount(int kind) { return kind == RNNSERVE_LSTM ? 4 : kind == RNNSERVE_GRU ? 3 : 1; }
inline int ComputeType(int type) { return type == RNNSERVE_DOUBLE ? RNNSERVE_DOUBLE : RNNSERVE_FLOAT; }
inline size_t ElementBytes(int type) { return type == RNNSERVE_DOUBLE ? 8 : type == RNNSERVE_FLOAT ? 4 : 2; }

// One block on the device, everything in the run type: x [rows, I] and y [rows, H] packed, states [active, H].
// Inputs are not written, so that a block can be run twice.
struct Work {
  ExecutionContext& context;
  const Block& block;
  const void* x;
  void* y;
  const void* h_in;
  const void* c_in;
  void* h_out;
  void* c_out;
  void* temporary;         // GeneralPath::TemporaryBytes
  const int64_t* offsets;  // the block's, on the device
};

}  // namespace rnnserve::cuda
