// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cell.h"

namespace rnnserve {

// recurrent-operators.md, section 6, in stable forms. NaN gives NaN.
double Apply(const Activation& function, double x);

}  // namespace rnnserve
