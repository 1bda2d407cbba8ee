// SPDX-License-Identifier: Apache-2.0
#include "server/routing/routing_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/hash/hash.h"

namespace rnnserve {
namespace {

// A figure is measured anew after 64 uses, then after twice as many each time, and after this many for ever.
constexpr int64_t kFirstRetry = 64;
constexpr int64_t kLastRetry = 1 << 17;
// Weight of the newest call in how many rows are shared.
constexpr double kNewest = 0.1;

}  // namespace

const EngineCost* RouteCosts::Of(const Engine* engine) const {
  const auto found = std::ranges::find(engines, engine, &EngineCost::engine);
  return found == engines.end() ? nullptr : &*found;
}

size_t RouteKeyHash::operator()(const RouteKey& key) const {
  // All that a caller chooses freely: keys of one bucket would slow down every call of their sizes.
  const CellSpec& cell = key.cell;
  size_t functions = 0;
  for (const Activation& f : cell.activations) {
    functions = absl::HashOf(functions, static_cast<int>(f.kind), f.alpha, f.beta);
  }
  return absl::HashOf(static_cast<int>(cell.kind), static_cast<int>(cell.data_type), cell.input_size, cell.hidden_size,
                      functions, cell.clip, cell.clip_cell_input, cell.input_forget, cell.linear_before_reset,
                      cell.has_peephole, key.options.allow_reduced_precision, key.options.deterministic,
                      static_cast<int>(key.options.weights));
}

RoutingTable::Found RoutingTable::Find(const RouteKey& key, const RouteShape& shape) {
  const auto cell = cells_.find(key);
  if (cell == cells_.end() || cell->second.shapes.empty()) return {};
  cell->second.used_at = ++now_;
  auto& shapes = cell->second.shapes;
  if (const auto exact = shapes.find(shape); exact != shapes.end()) {
    Measured& measured = exact->second;
    const bool due = ++measured.uses >= measured.next_retry;
    if (due) measured.next_retry = measured.uses + std::min(measured.uses, kLastRetry);
    return {&measured.costs, true, due};
  }
  const auto nearest =
      std::ranges::min_element(shapes, {}, [&shape](const auto& entry) { return Distance(entry.first, shape); });
  return {&nearest->second.costs, false, false};
}

void RoutingTable::Put(const RouteKey& key, const RouteShape& shape, std::vector<EngineCost> costs) {
  if (!cells_.contains(key)) MakeRoom();
  CellCosts& cell = cells_[key];
  cell.used_at = ++now_;
  const auto [at, is_new] = cell.shapes.try_emplace(shape);
  Measured& measured = at->second;
  if (is_new) measured.next_retry = kFirstRetry;
  measured.costs = {std::move(costs), measured.costs.best};
  const EngineCost* best = measured.costs.Of(measured.costs.best);
  double least = best == nullptr ? std::numeric_limits<double>::infinity() : best->seconds * (1 - kTie);
  for (const EngineCost& cost : measured.costs.engines) {
    if (cost.seconds >= least) continue;
    least = cost.seconds;
    measured.costs.best = cost.engine;
  }
}

double RoutingTable::others(const RouteKey& key) const {
  const auto cell = cells_.find(key);
  return cell == cells_.end() ? 0 : cell->second.others;
}

void RoutingTable::Shared(const RouteKey& key, int64_t others) {
  if (last_shared_ == nullptr || !(last_shared_->first == key)) {
    const auto cell = cells_.find(key);
    if (cell == cells_.end()) return;
    last_shared_ = &*cell;
  }
  double& average = last_shared_->second.others;
  average += kNewest * (static_cast<double>(others) - average);
}

void RoutingTable::MakeRoom() {
  if (cells_.size() < kMostCells) return;
  last_shared_ = nullptr;
  cells_.erase(std::ranges::min_element(cells_, {}, [](const auto& entry) { return entry.second.used_at; }));
}

const Engine* Cheapest(std::span<const Engine* const> engines, std::span<const RouteCosts* const> costs) {
  const Engine* cheapest = engines.front();
  double least = std::numeric_limits<double>::infinity();
  for (const Engine* engine : engines) {
    double sum = 0;
    for (const RouteCosts* cell : costs) {
      const EngineCost* cost = cell->Of(engine);
      if (cost == nullptr) return nullptr;
      sum += cost->seconds * (engine == cell->best ? 1 - RoutingTable::kTie : 1);
    }
    if (sum < least) {
      least = sum;
      cheapest = engine;
    }
  }
  return cheapest;
}

}  // namespace rnnserve
