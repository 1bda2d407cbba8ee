// SPDX-License-Identifier: Apache-2.0
// The general path: runs every cell in every type, on the calling thread unless made with a helper.
//
// Weights are packed once per program; all inputs of a stretch of steps go through one product, each step's active rows
// through another; functions run on the machine's vector units. 16-bit data is widened and computed in float32, rounded
// once on its way out. Results have the same bits whatever shares the batch and however the sequence is cut; where the
// CPU has tiles (tile_product.h), float32 and narrow bfloat16 need EngineOptions::deterministic for it. It uses no
// OpenMP.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace rnnserve {

std::unique_ptr<Engine> MakeCpuEngine();

// With one more thread that shares the work of an Advance while no other one runs (helper.h). Same bits, as above.
std::unique_ptr<Engine> MakeCpuEngineWithHelper();

}  // namespace rnnserve
