// SPDX-License-Identifier: Apache-2.0
// The nodes of lists and sets that come and go with each request: what one has left serves the next, without the
// allocator. Not thread-safe; the nodes of one SpareNodes belong to containers of one type.
//
//   SpareNodes<std::list<Lane*>> nodes;
//   auto place = nodes.Append(lanes, &lane);
//   nodes.Erase(lanes, place);
#pragma once

#include <cstddef>
#include <list>
#include <set>
#include <utility>
#include <vector>

namespace rnnserve {

// More go back to the allocator.
inline constexpr size_t kMostSpareNodes = 1024;

template <typename Container>
class SpareNodes;

template <typename T>
class SpareNodes<std::list<T>> {
 public:
  using Iterator = typename std::list<T>::iterator;

  Iterator Append(std::list<T>& list, T value) {
    if (spare_.empty()) return list.insert(list.end(), std::move(value));
    spare_.front() = std::move(value);
    list.splice(list.end(), spare_, spare_.begin());
    return std::prev(list.end());
  }

  void Erase(std::list<T>& list, Iterator place) {
    if (spare_.size() >= kMostSpareNodes) {
      list.erase(place);
      return;
    }
    *place = T();
    spare_.splice(spare_.begin(), list, place);
  }

 private:
  std::list<T> spare_;
};

template <typename Key, typename Less>
class SpareNodes<std::set<Key, Less>> {
 public:
  // False: it was there.
  bool Insert(std::set<Key, Less>& set, Key key) {
    if (spare_.empty()) return set.insert(std::move(key)).second;
    spare_.back().value() = std::move(key);
    auto inserted = set.insert(std::move(spare_.back()));
    if (inserted.inserted) {
      spare_.pop_back();
    } else {
      spare_.back() = std::move(inserted.node);
    }
    return inserted.inserted;
  }

  // False: it was not there.
  bool Erase(std::set<Key, Less>& set, const Key& key) {
    auto node = set.extract(key);
    if (!node) return false;
    if (spare_.size() < kMostSpareNodes) spare_.push_back(std::move(node));
    return true;
  }

 private:
  std::vector<typename std::set<Key, Less>::node_type> spare_;
};

}  // namespace rnnserve
