// SPDX-License-Identifier: Apache-2.0
// Which cells the cuda engine runs, and which of them cuDNN computes exactly as specified; the others take the general
// path. Plain C++ over the ABI: needs neither toolkit nor device, so that tests and tables can ask everywhere.
#pragma once

#include <string>

#include "engine/plugin/engine_abi.h"

namespace rnnserve::cuda {

// Why the engine can't run this cell, in the words of the operator's attributes; empty: it can.
std::string EngineRefusal(const rnnserve_cell& cell);

// Why cuDNN can't run a cell that the engine runs; empty: it can. Peepholes that are all zero count as none: the
// caller, which has the weights, then sets has_peephole = 0.
std::string CudnnRefusal(const rnnserve_cell& cell);

// Whether `activation` computes what the function `kind` does: by name, or by parameters that make it the same.
bool ActsAs(const rnnserve_activation& activation, int kind);

}  // namespace rnnserve::cuda
