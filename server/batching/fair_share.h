// SPDX-License-Identifier: Apache-2.0
// Fair queueing: which of several shares that have work has used least.
//
//   FairShare<Tenant> tenants;            // Tenant has a member `Share share`
//   tenants.Enter(tenant);                // it has work now
//   tenants.Least().share...              // whose turn it is
//   tenants.Charge(tenant, seconds, 3);   // what it has been given, while three had work; may be corrected later
//   tenants.Leave(tenant);                // nothing waits any more
//
// Whoever comes back after idling starts level with those who stayed, and whoever left in debt still owes. Level is
// what each would have used by now if those who had work had shared evenly: it rises with every charge, so that a debt
// is paid off after one turn of those who have work, however many others come anew. Not thread-safe; items leave before
// they die.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

namespace rnnserve {

struct Share {
  double used = 0;  // virtual time: cost used, and never less than the level when it came
  uint64_t id = 0;  // decides between equals
  bool waits = false;
};

template <typename Item>
class FairShare {
 public:
  void Enter(Item& item) {
    if (item.share.waits) return;
    item.share.used = std::max(item.share.used, level_);
    item.share.waits = true;
    waiting_.insert(&item);
  }

  void Leave(Item& item) {
    if (!item.share.waits) return;
    waiting_.erase(&item);
    item.share.waits = false;
  }

  // `sharers`: how many had work, waiting or being served; at least 1.
  void Charge(Item& item, double cost, int64_t sharers) {
    level_ += cost / static_cast<double>(std::max<int64_t>(sharers, 1));
    auto place = item.share.waits ? waiting_.extract(&item) : typename std::set<Item*, LessUsed>::node_type();
    item.share.used = std::max(item.share.used + cost, 0.0);
    if (place) waiting_.insert(std::move(place));
  }

  bool empty() const { return waiting_.empty(); }

  // Least(), for a look only.
  const Item& first() const { return **waiting_.begin(); }

  Item& Least() {
    Item& least = **waiting_.begin();
    level_ = std::max(level_, least.share.used);
    return least;
  }

  // Whether forgetting `item` changes nothing.
  bool MayForget(const Item& item) const { return !item.share.waits && item.share.used <= level_; }

 private:
  struct LessUsed {
    bool operator()(const Item* a, const Item* b) const {
      return a->share.used != b->share.used ? a->share.used < b->share.used : a->share.id < b->share.id;
    }
  };
  std::set<Item*, LessUsed> waiting_;
  double level_ = 0;
};

}  // namespace rnnserve
