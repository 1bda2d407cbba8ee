// SPDX-License-Identifier: Apache-2.0
// The step of LSTM, blocks i, o, f, c:
//
//   i = f(K(Wi x + Ri h + Pi (.) c + Wbi + Rbi)),  F likewise, or 1 - i with input_forget
//   n = g(K(Wc x + Rc h + Wbc + Rbc))
//   C = F (.) c + i (.) n
//   o = f(K(Wo x + Ro h + Po (.) C + Wbo + Rbo))
//   s = o (.) h(K(C))        K here only with clip_cell_input; C itself is kept unclipped
#pragma once

#include <memory>

#include "engine/cpu/recurrent_step.h"

namespace rnnserve::cpu {

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeLstmStep(const Cell& cell, WeightForm weights);

}  // namespace rnnserve::cpu
