// SPDX-License-Identifier: Apache-2.0
// One tenant's sessions in the order they were made, to list them page by page while others come and go. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace rnnserve {

// Item: a pointer, null when gone.
template <typename Item>
class CreationOrder {
 public:
  // `order` is larger than all before.
  void Add(uint64_t order, Item item) { entries_.push_back({order, std::move(item)}); }

  void Remove(uint64_t order) {
    const auto entry = After(order - 1);
    if (entry == entries_.end() || entry->first != order || entry->second == nullptr) return;
    entry->second = nullptr;
    if (++gone_ <= entries_.size() / 2) return;
    std::erase_if(entries_, [](const auto& one) { return one.second == nullptr; });
    gone_ = 0;
  }

  // At most `most` items made after `order`, with their own.
  std::vector<std::pair<uint64_t, Item>> Page(uint64_t order, size_t most) {
    std::vector<std::pair<uint64_t, Item>> page;
    for (auto entry = After(order); entry != entries_.end() && page.size() < most; ++entry) {
      if (entry->second != nullptr) page.push_back(*entry);
    }
    return page;
  }

  size_t size() const { return entries_.size() - gone_; }

 private:
  auto After(uint64_t order) {
    return std::upper_bound(entries_.begin(), entries_.end(), order,
                            [](uint64_t value, const auto& entry) { return value < entry.first; });
  }

  std::vector<std::pair<uint64_t, Item>> entries_;  // by order
  size_t gone_ = 0;
};

}  // namespace rnnserve
