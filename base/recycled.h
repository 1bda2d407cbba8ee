// SPDX-License-Identifier: Apache-2.0
// Memory of the objects that an operation needs while it is in flight: what one has left serves the next, also where
// one thread makes them and another one destroys them (a poller and a worker), which costs an allocator most.
//
//   class Run : public Recycled { ... };                      // new Run, std::make_unique<Run>
//   auto result = MakeRecycled<Result>(...);                  // std::make_shared, recycled
//   RecycledList<Entry> entries;                              // its nodes; also a vector, a set, a multimap
//
// Each thread keeps a few blocks of each size; more go to all threads, as a batch, and what is too much to the
// allocator. Blocks above kMostRecycledBytes are the allocator's, and all of them under a sanitizer, which shall see
// each use of freed memory.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace rnnserve {

inline constexpr size_t kMostRecycledBytes = 4096;

void* TakeRecycled(size_t bytes);
void GiveRecycled(void* block, size_t bytes) noexcept;

struct Recycled {
  static void* operator new(size_t bytes) { return TakeRecycled(bytes); }
  static void operator delete(void* block, size_t bytes) noexcept { GiveRecycled(block, bytes); }
};

template <typename T>
struct RecycledAllocator {
  using value_type = T;
  RecycledAllocator() = default;
  template <typename Other>
  RecycledAllocator(const RecycledAllocator<Other>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(size_t count) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    return static_cast<T*>(TakeRecycled(count * sizeof(T)));
  }
  void deallocate(T* block, size_t count) noexcept { GiveRecycled(block, count * sizeof(T)); }
  bool operator==(const RecycledAllocator&) const { return true; }
};

template <typename T>
using RecycledVector = std::vector<T, RecycledAllocator<T>>;
template <typename T>
using RecycledList = std::list<T, RecycledAllocator<T>>;
template <typename Key, typename Less = std::less<Key>>
using RecycledSet = std::set<Key, Less, RecycledAllocator<Key>>;
template <typename Key, typename Value>
using RecycledMultimap = std::multimap<Key, Value, std::less<Key>, RecycledAllocator<std::pair<const Key, Value>>>;

template <typename T, typename... Args>
std::shared_ptr<T> MakeRecycled(Args&&... args) {
  return std::allocate_shared<T>(RecycledAllocator<T>(), std::forward<Args>(args)...);
}

}  // namespace rnnserve
