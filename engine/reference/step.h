// SPDX-License-Identifier: Apache-2.0
// One step of one cell, as the equations stand in recurrent-operators.md, section 5.
#pragma once

#include <span>
#include <vector>

#include "engine/cell.h"

namespace rnnserve {

// x: I values. h, c: H values (c only for LSTM), replaced by the state after the step, not rounded.
void Step(const Cell& cell, std::span<const double> x, std::vector<double>& h, std::vector<double>& c);

}  // namespace rnnserve
