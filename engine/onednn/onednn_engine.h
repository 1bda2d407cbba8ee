// SPDX-License-Identifier: Apache-2.0
// oneDNN's LSTM, GRU and RNN primitives on the calling thread: float32, and bfloat16 where reduced precision is allowed
// and the CPU multiplies bfloat16. Cells outside its predicate (predicate.h) are refused with the attribute that is in
// the way.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace rnnserve {

std::unique_ptr<Engine> MakeOneDnnEngine();

}  // namespace rnnserve
