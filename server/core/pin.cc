// SPDX-License-Identifier: Apache-2.0
// Models that are run many times: everything is decided and packed once.
#include <utility>

#include "base/status_macros.h"
#include "server/core/core.h"
#include "server/core/target.h"
#include "server/routing/second_engine.h"

namespace rnnserve {

absl::StatusOr<PinnedModel> Core::Pin(const InferCall& call, const RouteLoad& load) {
  ASSIGN_OR_RETURN(auto&& resolved, ResolveTarget(call, *models_));
  absl::StatusOr<PinnedModel> pinned = PinResolved(std::move(resolved), load);
  if (!pinned.ok()) return pinned;
  Count(pinned->engines, pinned->label);
  if (options_.verifier == nullptr) return pinned;
  if (std::optional<PinnedModel> second = PinOnSecondEngine(*pinned, router_, *programs_)) {
    Count(second->engines, kVerifiedModel);
    pinned->second = std::make_shared<const PinnedModel>(*std::move(second));
  }
  return pinned;
}

absl::StatusOr<PinnedModel> Core::PinResolved(ResolvedModel resolved, const RouteLoad& load) {
  ASSIGN_OR_RETURN(auto&& routes, Choose(resolved, load));
  Settle(resolved, routes);
  ASSIGN_OR_RETURN(auto&& engines, EnginesOf(resolved, routes));
  return PinnedModel{std::move(resolved), std::move(engines)};
}

}  // namespace rnnserve
