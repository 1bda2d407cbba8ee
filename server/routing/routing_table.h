// SPDX-License-Identifier: Apache-2.0
// What was measured: seconds of a step on each engine, by cell and shape. Weights do not matter to it: a thousand
// models of one size are measured once. Bounded: the cells not asked for the longest go first. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "server/routing/routing_shape.h"

namespace rnnserve {

struct RouteKey {
  CellSpec cell;
  EngineOptions options;
  bool operator==(const RouteKey&) const = default;
};

struct RouteKeyHash {
  size_t operator()(const RouteKey& key) const;
};

struct EngineCost {
  const Engine* engine = nullptr;
  double seconds = 0;  // of a step; infinity: it failed
};

// The costs of one cell at one shape.
struct RouteCosts {
  std::vector<EngineCost> engines;
  const Engine* best = nullptr;

  // Null if it was not measured.
  const EngineCost* Of(const Engine* engine) const;
};

class RoutingTable {
 public:
  static constexpr size_t kMostCells = 4096;
  // The best one stays until another is better by more than this: a change splits batches, and gaps of a few percent
  // are ties.
  static constexpr double kTie = 0.05;

  RoutingTable() = default;
  RoutingTable(const RoutingTable&) = delete;
  RoutingTable& operator=(const RoutingTable&) = delete;

  struct Found {
    const RouteCosts* costs = nullptr;  // null: nothing measured for this cell. Valid until the next change.
    bool is_exact = false;              // else they are of the nearest shape that was measured
    bool retry_is_due = false;          // asked for often enough since it was measured
  };
  // Counts as one use.
  Found Find(const RouteKey& key, const RouteShape& shape);

  void Put(const RouteKey& key, const RouteShape& shape, std::vector<EngineCost> costs);

  // How many rows of others a call of this cell usually shares its slices with.
  double others(const RouteKey& key) const;
  void Shared(const RouteKey& key, int64_t others);

  size_t cells() const { return cells_.size(); }

 private:
  struct Measured {
    RouteCosts costs;
    int64_t uses = 0;
    int64_t next_retry = 0;  // uses
  };
  struct CellCosts {
    std::map<RouteShape, Measured> shapes;
    double others = 0;
    int64_t used_at = 0;
  };

  using Cells = std::unordered_map<RouteKey, CellCosts, RouteKeyHash>;

  void MakeRoom();

  Cells cells_;
  Cells::value_type* last_shared_ = nullptr;  // of cells_; calls of one cell come one after the other
  int64_t now_ = 0;                           // uses of all cells
};

// The one of `engines` with the least cost over all cells, the first of those that cost the same; `costs` holds one
// entry a cell. Null if one of them was not measured for a cell.
const Engine* Cheapest(std::span<const Engine* const> engines, std::span<const RouteCosts* const> costs);

}  // namespace rnnserve
