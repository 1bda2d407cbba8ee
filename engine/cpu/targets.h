// SPDX-License-Identifier: Apache-2.0
// Highway's dispatch within MaxInstructionSet().
#pragma once

namespace rnnserve::cpu {

// Before the first kernel runs. Further calls do nothing.
void LimitTargets();

}  // namespace rnnserve::cpu
