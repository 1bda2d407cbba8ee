// SPDX-License-Identifier: Apache-2.0
// For tests that use kernels without an engine: those of the instruction set that RNNSERVE_MAX_CPU_ISA names.
#include <gtest/gtest.h>

#include <cstdio>

#include "engine/cpu/targets.h"
#include "engine/instruction_set.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace rnnserve::cpu {
namespace {

[[maybe_unused]] const bool kLimited = (LimitTargets(), true);

// A test for one instruction set must not run with another one silently.
TEST(LimitedTargetsTest, NothingAboveTheLimitIsDispatched) {
  const int64_t best = HWY_TARGETS & hwy::SupportedTargets();
  switch (MaxInstructionSet()) {
    case InstructionSet::kSse4:
      EXPECT_EQ(best & (HWY_SSE4 - 1), 0);
      break;
    case InstructionSet::kAvx2:
      EXPECT_EQ(best & (HWY_AVX2 - 1), 0);
      break;
    case InstructionSet::kAvx512:
      EXPECT_EQ(best & (HWY_AVX3 - 1), 0);
      break;
    case InstructionSet::kAll:
      EXPECT_NE(best, 0);
      break;
  }
  std::printf("           best target: %s\n", hwy::TargetName(best & -best));
}

}  // namespace
}  // namespace rnnserve::cpu
