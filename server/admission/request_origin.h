// SPDX-License-Identifier: Apache-2.0
// Where a request comes from: what decides its turn and its end, from the dialect to the scheduler.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"

namespace rnnserve {

struct RequestOrigin {
  int32_t priority = 0;    // -100 to 100; higher goes first
  uint64_t caller_id = 0;  // shares compute fairly with others: a tenant or a connection
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<std::atomic<bool>> cancelled;  // may be null
};

}  // namespace rnnserve
