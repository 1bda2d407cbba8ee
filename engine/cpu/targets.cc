// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/targets.h"

#include "engine/instruction_set.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace rnnserve::cpu {
namespace {

// Better targets have lower bits.
bool DisableAbove(int64_t target) {
  hwy::DisableTargets(target - 1);
  return true;
}

bool Limit() {
  switch (MaxInstructionSet()) {
    case InstructionSet::kSse4:
      return DisableAbove(HWY_SSE4);
    case InstructionSet::kAvx2:
      return DisableAbove(HWY_AVX2);
    case InstructionSet::kAvx512:
      return DisableAbove(HWY_AVX3);
    case InstructionSet::kAll:
      break;
  }
  return false;
}

}  // namespace

void LimitTargets() { [[maybe_unused]] static const bool limited = Limit(); }

}  // namespace rnnserve::cpu
