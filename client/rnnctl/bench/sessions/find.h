// SPDX-License-Identifier: Apache-2.0
// Searches how many sessions a server holds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "client/rnnctl/bench/run.h"

namespace rnnserve::rnnctl::bench {

// The largest number up to `most` that holds, to within 5 %: from `start` by doubling (or halving), then between. What
// does not hold is tried a second time, since machines have bad moments. 0: not even one holds. Nothing from `holds`
// ends the search with what is known.
int64_t FindMost(int64_t start, int64_t most, const std::function<std::optional<bool>(int64_t)>& holds);

// Whether chunks were answered in time: p99 at most `target`, no failures, and hardly any left unsent.
bool IsHeld(const Level& level, Time target);

}  // namespace rnnserve::rnnctl::bench
