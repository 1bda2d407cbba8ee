// SPDX-License-Identifier: Apache-2.0
// The step of GRU, blocks z, r, h:
//
//   z = f(K(Wz x + Rz h + Wbz + Rbz)),  r likewise
//   n = g(K(Wh x + Rh (r (.) h) + Wbh + Rbh))        linear_before_reset = 0
//   n = g(K(Wh x + Wbh + r (.) (Rh h + Rbh)))        otherwise
//   s = (1 - z) (.) n + z (.) h
#pragma once

#include <memory>

#include "engine/cpu/recurrent_step.h"

namespace rnnserve::cpu {

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeGruStep(const Cell& cell, WeightForm weights);

}  // namespace rnnserve::cpu
