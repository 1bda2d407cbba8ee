// SPDX-License-Identifier: Apache-2.0
// How much memory the process may take, and the defaults that follow from it.
#pragma once

#include <cstdint>

#include "server/config/control_groups.h"
#include "server/config/settings.h"

namespace rnnserve {

// The least limit of these groups; 0: none.
int64_t MemoryLimitOf(const ControlGroups& groups);

// With less the process, which takes 36 MiB by itself, could not serve two small calls at once.
inline constexpr int64_t kLeastMemoryLimit = int64_t{48} << 20;

// The smaller one of those that are known; 0: neither is.
int64_t LeastMemory(int64_t container, int64_t machine);

// What --memory_limit says; 0 there: the container's limit, or the machine's memory if that is less. 0: unknown.
int64_t MemoryLimit();

// Flags that were not set go down to their share of the limit, where their default is above it.
void FitToMemory(int64_t limit, Settings& settings);

}  // namespace rnnserve
