// SPDX-License-Identifier: Apache-2.0
// The choice; router_trials.cc has the trials.
#include "server/routing/router.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/routing/choose_engine.h"

namespace rnnserve {

std::string EngineNames(std::span<const Engine* const> engines) {
  if (engines.size() == 1) return std::string(engines[0]->name());
  std::set<std::string_view> names;
  for (const Engine* engine : engines) names.insert(engine->name());
  return absl::StrJoin(names, ", ", [](std::string* out, std::string_view name) { out->append(name); });
}

Router::Router(RoutingOptions options, std::vector<const Engine*> engines, ProgramCache* programs)
    : options_(std::move(options)),
      engines_(std::move(engines)),
      programs_(programs),
      allowance_(options_.most_waiting),
      refilled_at_(options_.clocks.wall()) {}

absl::StatusOr<Route> Router::Choose(std::string_view name, std::span<const CellPtr> cells,
                                     const EngineOptions& options, RouteLoad load) {
  if (!IsAutoEngine(name)) {
    ASSIGN_OR_RETURN(const Engine* engine, ChooseEngine(engines_, name, cells, options));
    return Route{.engine = engine};
  }
  EngineList candidates = Eligible(name, cells, options);
  if (candidates.empty()) return ChooseEngine(engines_, name, cells, options).status();
  const bool is_empty = load.rows < 1 || load.steps < 1;
  if (candidates.size() == 1 || is_empty) return Route{.engine = candidates.front()};

  const MutexLock lock(mutex_);
  load = WithOthers(cells, options, load);
  const Engine* known = Known(candidates, cells, options, ShapeOf(load), true);
  if (known != nullptr) return Route{.engine = known};
  const Engine* first = candidates.front();
  return Route{.engine = first, .is_provisional = true, .candidates = std::move(candidates), .load = load};
}

const Engine* Router::Another(const Engine* engine, std::span<const CellPtr> cells,
                              const EngineOptions& options) const {
  for (const Engine* other : Candidates(cells, options)) {
    if (other != engine) return other;
  }
  return nullptr;
}

void Router::Ran(std::span<const CellPtr> cells, const EngineOptions& options, RouteLoad load, int64_t largest_batch) {
  const MutexLock lock(mutex_);
  const int64_t others = std::max<int64_t>(largest_batch - load.rows, 0);
  for (const CellPtr& cell : cells) table_.Shared({cell->spec(), options}, others);
}

EngineList Router::Candidates(std::span<const CellPtr> cells, const EngineOptions& options) const {
  EngineList candidates;
  for (const Engine* engine : engines_) {
    if (SupportsAll(*engine, cells, options).ok()) candidates.push_back(engine);
  }
  return candidates;
}

EngineList Router::Eligible(std::string_view name, std::span<const CellPtr> cells, const EngineOptions& options) const {
  EngineList candidates = Candidates(cells, options);
  const std::string_view wanted = name.empty() ? std::string_view(options_.engine) : name;
  for (const Engine* engine : candidates) {
    if (engine->name() == wanted) return {engine};
  }
  if (!IsAutoEngine(name)) return {};
  if (candidates.size() > 1) {
    const auto is_last_resort = [&](const Engine* e) { return e->name() == options_.last_resort; };
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(), is_last_resort), candidates.end());
  }
  if (options.deterministic && candidates.size() > 1) candidates.resize(1);
  return candidates;
}

RouteLoad Router::WithOthers(std::span<const CellPtr> cells, const EngineOptions& options, RouteLoad load) const {
  double others = 0;
  for (const CellPtr& cell : cells) others = std::max(others, table_.others({cell->spec(), options}));
  const auto more = static_cast<int64_t>(std::lround(others));
  return {load.rows + more, load.steps, more > 0};
}

const Engine* Router::Known(std::span<const Engine* const> engines, std::span<const CellPtr> cells,
                            const EngineOptions& options, const RouteShape& shape, bool ask) {
  absl::InlinedVector<const RouteCosts*, 4> costs;
  for (const CellPtr& cell : cells) {
    const RoutingTable::Found found = table_.Find({cell->spec(), options}, shape);
    if (found.costs == nullptr) return nullptr;
    costs.push_back(found.costs);
    if (!ask || (found.is_exact && !found.retry_is_due)) continue;
    Ask({cell, options, shape, {engines.begin(), engines.end()}, /*is_retry=*/found.is_exact});
  }
  return Cheapest(engines, costs);
}

}  // namespace rnnserve
