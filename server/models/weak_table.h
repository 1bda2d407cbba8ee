// SPDX-License-Identifier: Apache-2.0
// Objects by content key, as long as they are held elsewhere: equal content becomes one object. Thread-safe.
//
//   WeakTable<const Cell> cells;
//   cell = cells.Share(cell->key(), cell);  // the first equal one that is alive, or this one
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"

namespace rnnserve {

template <typename T>
class WeakTable {
 public:
  // Null if no object of this key is alive.
  std::shared_ptr<T> Find(const std::string& key) const {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second.lock();
  }

  // The living object of this key; `candidate` becomes it if there is none.
  std::shared_ptr<T> Share(const std::string& key, std::shared_ptr<T> candidate) {
    const MutexLock lock(mutex_);
    std::weak_ptr<T>& entry = objects_[key];
    if (std::shared_ptr<T> alive = entry.lock()) return alive;
    entry = candidate;
    if (objects_.size() >= next_sweep_) Sweep();
    return candidate;
  }

 private:
  // Each sweep pays for itself: the table has doubled since the last one.
  void Sweep() {
    std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
    next_sweep_ = std::max(kFirstSweep, 2 * objects_.size());
  }

  static constexpr size_t kFirstSweep = 64;
  mutable Mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<T>> objects_;
  size_t next_sweep_ = kFirstSweep;
};

}  // namespace rnnserve
