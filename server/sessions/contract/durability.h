// SPDX-License-Identifier: Apache-2.0
// How much of a session outlives its process, as Open agrees on it.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace rnnserve {

enum class Durability {
  kLocal,     // nothing
  kInterval,  // what is at most some operations, or some time, old
  kSync,      // every operation that has been answered
};

// Of kInterval: a record is written after so many operations, or so long after the first one that no record has.
inline constexpr uint64_t kOperationsARecord = 64;
inline constexpr absl::Duration kTimeARecord = absl::Seconds(1);
// Where the store is away: operations that no record has, before new ones are refused.
inline constexpr uint64_t kMostUndurable = 1024;

}  // namespace rnnserve
