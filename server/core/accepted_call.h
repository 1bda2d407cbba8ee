// SPDX-License-Identifier: Apache-2.0
// What Core::Accept finds out about a call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "server/admission/byte_budget.h"
#include "server/core/call.h"
#include "server/routing/router.h"

namespace rnnserve {

// A call that passed every check, with its memory set aside; nothing has been allocated for it yet.
struct AcceptedCall : RequestOrigin {
  std::shared_ptr<const ResolvedModel> resolved;
  RunPlan plan;
  RouteLoad load;
  int64_t bytes = 0;  // that a run of it takes
  ByteBudget::Share memory;
  bool takes_long = false;
  Routes routes = {};   // of each layer, unless it is pinned
  bool verify = false;  // run on a second engine as well
  // Set by callers that keep states between runs: the run starts from these instead of initial_h and initial_c, a row
  // of length 0 keeps its state, and the reply has all of them as they are afterwards.
  std::optional<RunStates> states = {};
  PinnedModelPtr pinned = {};  // its programs run; null: those of the cache
};

}  // namespace rnnserve
