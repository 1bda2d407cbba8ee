// SPDX-License-Identifier: Apache-2.0
// What Core::Accept makes of a call and Core::Run takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "server/admission/byte_budget.h"
#include "server/core/call.h"
#include "server/routing/router.h"

namespace rnnserve {

// A call that passed every check.
struct CheckedCall {
  ModelPtr model;
  RunPlan plan;
  absl::InlinedVector<Route, 1> routes = {};  // of each layer, unless it is pinned
  RouteLoad load;
  bool clip_cell_input;
  EngineOptions engine_options;
  int32_t priority = 0;
  uint64_t caller_id = 0;
  int64_t bytes = 0;  // that a run of it takes
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<std::atomic<bool>> cancelled;
  std::string label;  // of its model in metrics
  // Run will take long on its thread: it packs weights, measures engines, or fills much memory.
  bool takes_long = false;
  bool verify = false;  // run on a second engine as well
  // Set by callers that keep states between runs: the run starts from these instead of initial_h and initial_c, a row
  // of length 0 keeps its state, and the reply has all of them as they are afterwards.
  std::optional<RunStates> states = {};
  PinnedModelPtr pinned = {};  // its programs run; null: those of the cache

  const std::vector<CellPtr>& cells(size_t layer) const { return model->layers()[layer].cells(clip_cell_input); }
};

// With its memory set aside; nothing has been allocated for it yet.
struct AcceptedCall : CheckedCall {
  ByteBudget::Share memory;
};

}  // namespace rnnserve
