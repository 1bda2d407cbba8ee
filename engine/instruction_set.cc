// SPDX-License-Identifier: Apache-2.0
#include "engine/instruction_set.h"

#include <cstdio>
#include <cstdlib>

namespace rnnserve {
namespace {

constexpr char kVariable[] = "RNNSERVE_MAX_CPU_ISA";

InstructionSet FromEnvironment() {
  const char* const value = std::getenv(kVariable);
  const std::optional<InstructionSet> parsed = ParseInstructionSet(value == nullptr ? "" : value);
  if (parsed) return *parsed;
  std::fprintf(stderr, "%s is \"%s\", expected sse4, avx2 or avx512; leave it unset to use what the CPU has\n",
               kVariable, value);
  std::exit(2);
}

}  // namespace

std::optional<InstructionSet> ParseInstructionSet(std::string_view name) {
  if (name.empty()) return InstructionSet::kAll;
  if (name == "sse4") return InstructionSet::kSse4;
  if (name == "avx2") return InstructionSet::kAvx2;
  if (name == "avx512") return InstructionSet::kAvx512;
  return std::nullopt;
}

InstructionSet MaxInstructionSet() {
  static const InstructionSet max = FromEnvironment();
  return max;
}

}  // namespace rnnserve
