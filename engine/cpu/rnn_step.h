// SPDX-License-Identifier: Apache-2.0
// The step of RNN: s = f(K(W x + R h + Wb + Rb)).
#pragma once

#include <memory>

#include "engine/cpu/recurrent_step.h"

namespace rnnserve::cpu {

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeRnnStep(const Cell& cell, WeightForm weights);

}  // namespace rnnserve::cpu
