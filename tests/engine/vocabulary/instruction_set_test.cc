// SPDX-License-Identifier: Apache-2.0
#include "engine/instruction_set.h"

#include <gtest/gtest.h>

namespace rnnserve {
namespace {

TEST(InstructionSetTest, KnowsItsNamesAndNoOthers) {
  EXPECT_EQ(ParseInstructionSet(""), InstructionSet::kAll);
  EXPECT_EQ(ParseInstructionSet("sse4"), InstructionSet::kSse4);
  EXPECT_EQ(ParseInstructionSet("avx2"), InstructionSet::kAvx2);
  EXPECT_EQ(ParseInstructionSet("avx512"), InstructionSet::kAvx512);
  for (const char* other : {"AVX2", "avx", "avx512 ", "all"}) EXPECT_EQ(ParseInstructionSet(other), std::nullopt);
}

}  // namespace
}  // namespace rnnserve
