// SPDX-License-Identifier: Apache-2.0
// From the ABI's element types to the kernels' C++ types.
#pragma once

#include "engine/cuda/element.h"
#include "engine/plugin/engine_abi.h"

namespace rnnserve::cuda {

// Calls `fn` with null pointers of the two element types.
template <typename Fn>
void WithTypes(int from, int to, Fn fn) {
  if (from == RNNSERVE_FLOAT && to == RNNSERVE_FLOAT)
    return fn(static_cast<float*>(nullptr), static_cast<float*>(nullptr));
  if (from == RNNSERVE_DOUBLE && to == RNNSERVE_DOUBLE)
    return fn(static_cast<double*>(nullptr), static_cast<double*>(nullptr));
  if (from == RNNSERVE_FLOAT16 && to == RNNSERVE_FLOAT)
    return fn(static_cast<Half*>(nullptr), static_cast<float*>(nullptr));
  if (from == RNNSERVE_BFLOAT16 && to == RNNSERVE_FLOAT)
    return fn(static_cast<BFloat16*>(nullptr), static_cast<float*>(nullptr));
  if (from == RNNSERVE_FLOAT && to == RNNSERVE_FLOAT16)
    return fn(static_cast<float*>(nullptr), static_cast<Half*>(nullptr));
  if (from == RNNSERVE_FLOAT && to == RNNSERVE_BFLOAT16)
    return fn(static_cast<float*>(nullptr), static_cast<BFloat16*>(nullptr));
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

}  // namespace rnnserve::cuda
