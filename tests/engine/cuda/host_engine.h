// SPDX-License-Identifier: Apache-2.0
// The cuda engine's general path on the host: its formulas, its staging, packing and index arithmetic, with plain loops
// in place of cuBLAS and of threads. Blocks hold few steps, so that sequences cross them.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace rnnserve::cuda {

std::unique_ptr<Engine> MakeHostEngine();

}  // namespace rnnserve::cuda
