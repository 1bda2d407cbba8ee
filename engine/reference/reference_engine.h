// SPDX-License-Identifier: Apache-2.0
// The oracle: plain loops in double precision, every cell, no packing. Slow and meant to be read next to
// recurrent-operators.md, section 5. State is rounded to the cell's compute type once at the end of each step, so that
// a sequence cut anywhere, exported and imported, gives the same bits as one run.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace rnnserve {

std::unique_ptr<Engine> MakeReferenceEngine();

}  // namespace rnnserve
