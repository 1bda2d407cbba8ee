// SPDX-License-Identifier: Apache-2.0
// The nodes of lists, sets and maps that come and go with each request: what one has left serves the next, without the
// allocator. Not thread-safe; the nodes of one SpareNodes belong to containers of one type.
//
//   SpareNodes<std::list<Lane*>> nodes;
//   auto place = nodes.Append(lanes, &lane);
//   nodes.Erase(lanes, place);
#pragma once

#include <cstddef>
#include <list>
#include <map>
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

template <typename Key, typename Value>
class SpareNodes<std::multimap<Key, Value>> {
 public:
  using Position = typename std::multimap<Key, Value>::iterator;

  Position Insert(std::multimap<Key, Value>& map, Key key, Value value) {
    if (spare_.empty()) return map.emplace(std::move(key), std::move(value));
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = std::move(key);
    node.mapped() = std::move(value);
    return map.insert(std::move(node));
  }

  void Erase(std::multimap<Key, Value>& map, Position place) {
    auto node = map.extract(place);
    if (spare_.size() < kMostSpareNodes) spare_.push_back(std::move(node));
  }

 private:
  std::vector<typename std::multimap<Key, Value>::node_type> spare_;
};

}  // namespace rnnserve
