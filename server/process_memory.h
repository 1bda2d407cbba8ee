// SPDX-License-Identifier: Apache-2.0
// The memory of this process: how much it may be, and giving back what the allocator keeps for later.
#pragma once

#include <cstdint>
#include <memory>

#include "server/admission/memory_watch.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

// Null without a limit (0).
std::unique_ptr<MemoryWatch> WatchMemory(int64_t limit, Metrics& metrics);

}  // namespace rnnserve
