// SPDX-License-Identifier: Apache-2.0
// Which sessions to look at when: one bucket for each sweep period ahead. Adding, removing and finding what is due cost
// the same whatever the number of sessions. Not thread-safe.
//
// An entry is only a reminder: using a session does not move it, and the sweep puts it back if the session was used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace rnnserve {

// Where an item is in the wheel; kept by the item.
struct WheelPosition {
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  uint32_t bucket = kNowhere;
  uint32_t slot = 0;
};

// Item: copyable, compares with ==, and `item->wheel_position` is its place.
template <typename Item>
class ExpiryWheel {
 public:
  explicit ExpiryWheel(absl::Duration period) : period_(period), buckets_(kBuckets) {}

  // Times beyond the wheel's reach come up earlier, to be added again.
  void Add(Item item, absl::Duration at) {
    const int64_t tick = std::clamp(Tick(at) + 1, tick_ + 1, tick_ + kBuckets - 1);
    const auto bucket = static_cast<uint32_t>(tick % kBuckets);
    buckets_[bucket].push_back(std::move(item));
    buckets_[bucket].back()->wheel_position = {bucket, static_cast<uint32_t>(buckets_[bucket].size() - 1)};
  }

  void Remove(const Item& item) {
    const WheelPosition place = item->wheel_position;
    if (place.bucket == WheelPosition::kNowhere) return;
    item->wheel_position = {};
    std::vector<Item>& bucket = buckets_[place.bucket];
    if (place.slot + 1 != bucket.size()) {
      bucket[place.slot] = std::move(bucket.back());
      bucket[place.slot]->wheel_position = place;
    }
    bucket.pop_back();
  }

  void Clear() { buckets_.assign(kBuckets, {}); }

  // At most `most` items whose time has come; they are out of the wheel. Fewer: there are no more.
  std::vector<Item> TakeDue(absl::Duration now, size_t most) {
    std::vector<Item> due;
    for (;;) {
      std::vector<Item>& bucket = buckets_[static_cast<size_t>(tick_ % kBuckets)];
      while (!bucket.empty() && due.size() < most) {
        bucket.back()->wheel_position = {};
        due.push_back(std::move(bucket.back()));
        bucket.pop_back();
      }
      if (due.size() == most || tick_ >= Tick(now)) return due;
      bucket.shrink_to_fit();
      ++tick_;
    }
  }

 private:
  static constexpr int64_t kBuckets = 1024;

  int64_t Tick(absl::Duration at) const {
    absl::Duration rest;
    return absl::IDivDuration(at, period_, &rest);
  }

  const absl::Duration period_;
  std::vector<std::vector<Item>> buckets_;
  int64_t tick_ = 0;  // looked through up to here
};

}  // namespace rnnserve
