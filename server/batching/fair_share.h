// SPDX-License-Identifier: Apache-2.0
// Fair queueing: which of several items that have work has used least.
//
//   FairShare<Tenant> tenants;            // Tenant has a member `Usage usage`
//   tenants.Enter(tenant);                // it has work now
//   tenants.Least().usage...              // the next to serve
//   tenants.Charge(tenant, seconds, 3);   // what it has used while three had work; may be corrected later
//   tenants.Leave(tenant);                // nothing waits any more
//
// An item that returns after idling starts at the level of the others; an item that left in debt still owes. The level
// is what each item would have used by now if the items with work had shared evenly. It rises with every charge, so a
// debt is paid off after one turn of the items with work, however many new ones come. Not thread-safe; an item leaves
// before it is destroyed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/recycled.h"

namespace rnnserve {

struct Usage {
  double used = 0;  // virtual time: cost used, at least the level at its Enter
  uint64_t id = 0;  // decides between equals
  bool waits = false;
};

template <typename Item>
class FairShare {
 public:
  void Enter(Item& item) {
    if (item.usage.waits) return;
    item.usage.used = std::max(item.usage.used, level_);
    item.usage.waits = true;
    waiting_.insert(&item);
  }

  void Leave(Item& item) {
    if (!item.usage.waits) return;
    waiting_.erase(&item);
    item.usage.waits = false;
  }

  // `sharers`: how many had work, waiting or being served; at least 1.
  void Charge(Item& item, double cost, int64_t sharers) {
    level_ += cost / static_cast<double>(std::max<int64_t>(sharers, 1));
    const bool moves = item.usage.waits && waiting_.size() > 1;
    auto place = moves ? waiting_.extract(&item) : typename RecycledSet<Item*, LessUsed>::node_type();
    item.usage.used = std::max(item.usage.used + cost, 0.0);
    if (place) waiting_.insert(std::move(place));
  }

  bool empty() const { return waiting_.empty(); }

  // Least(), without changing anything.
  const Item& first() const { return **waiting_.begin(); }

  Item& Least() {
    Item& least = **waiting_.begin();
    level_ = std::max(level_, least.usage.used);
    return least;
  }

 private:
  struct LessUsed {
    bool operator()(const Item* a, const Item* b) const {
      return a->usage.used != b->usage.used ? a->usage.used < b->usage.used : a->usage.id < b->usage.id;
    }
  };
  RecycledSet<Item*, LessUsed> waiting_;
  double level_ = 0;
};

}  // namespace rnnserve
