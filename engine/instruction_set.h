// SPDX-License-Identifier: Apache-2.0
// The highest instruction set that engines may use on this CPU: RNNSERVE_MAX_CPU_ISA, read once. What a machine has by
// itself needs no setting; this one makes a machine compute as an older one does, for tests and measurements.
#pragma once

#include <optional>
#include <string_view>

namespace rnnserve {

enum class InstructionSet { kSse4, kAvx2, kAvx512, kAll };

// "sse4", "avx2", "avx512" (without VNNI and bfloat16), "" (all that the CPU has); nullopt for anything else.
std::optional<InstructionSet> ParseInstructionSet(std::string_view name);

// Ends the process with status 2 and a line on stderr where the variable says something else.
InstructionSet MaxInstructionSet();

}  // namespace rnnserve
