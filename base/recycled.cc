// SPDX-License-Identifier: Apache-2.0
#include "base/recycled.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "base/mutex.h"

namespace rnnserve {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void* TakeRecycled(size_t bytes) { return ::operator new(bytes); }
void GiveRecycled(void* block, size_t) noexcept { ::operator delete(block); }

#else

namespace {

// Classes of small blocks differ by less: sessions keep three each.
constexpr size_t kSmallBytes = 128, kSmallStep = 16, kStep = 64;
constexpr size_t kSmallClasses = kSmallBytes / kSmallStep;
constexpr size_t kClasses = kSmallClasses + (kMostRecycledBytes - kSmallBytes) / kStep;
constexpr size_t kLine = 64, kMostExpected = 512;  // bytes asked for before they are taken
constexpr int kBatch = 16;                         // blocks; a thread keeps up to two batches of a class
// Shared of one class, enough for some hundred operations in flight; of all classes; and of one where all have as much
// as they may: sizes that were in use once must not keep those of today from it.
constexpr size_t kMostBytesOfClass = 1 << 20, kMostBytesOfAll = 16 << 20, kLeastBytesOfClass = 128 << 10;

// Blocks of one class. Nothing is written into them: the next one may lie in another processor's caches.
struct Stack {
  int count = 0;
  std::array<void*, kBatch> blocks;

  void Push(void* block) { blocks[static_cast<size_t>(count++)] = block; }
  void* Pop() { return blocks[static_cast<size_t>(--count)]; }
  // Fetches the one after the next one.
  void ExpectPop(size_t bytes) const {
    if (count < 2) return;
    const char* const block = static_cast<const char*>(blocks[static_cast<size_t>(count) - 2]);
    for (size_t k = 0; k < std::min(bytes, kMostExpected); k += kLine) __builtin_prefetch(block + k, 1);
  }
  void Free() {
    while (count > 0) ::operator delete(Pop());
  }
};

constexpr size_t ClassOf(size_t bytes) {
  return bytes <= kSmallBytes ? (bytes - 1) / kSmallStep : kSmallClasses + (bytes - kSmallBytes - 1) / kStep;
}
constexpr size_t BytesOf(size_t k) {
  return k < kSmallClasses ? (k + 1) * kSmallStep : kSmallBytes + (k - kSmallClasses + 1) * kStep;
}
static_assert(ClassOf(kMostRecycledBytes) == kClasses - 1 && BytesOf(kClasses - 1) == kMostRecycledBytes);
static_assert(BytesOf(ClassOf(kSmallBytes)) == kSmallBytes && BytesOf(ClassOf(kSmallBytes + 1)) == kSmallBytes + kStep);

// Whole batches, for all threads. Lives as long as any thread may.
class Shared {
 public:
  static Shared& Get() {
    static Shared& shared = *new Shared();
    return shared;
  }
  // False: there is none, or there are enough.
  bool Take(size_t k, Stack& to) {
    const MutexLock lock(mutex_);
    if (batches_[k].empty()) return false;
    to = batches_[k].back();
    batches_[k].pop_back();
    bytes_ -= kBatch * BytesOf(k);
    return true;
  }
  bool Give(size_t k, Stack batch) {
    const MutexLock lock(mutex_);
    const size_t bytes = kBatch * BytesOf(k), of_class = (batches_[k].size() + 1) * bytes;
    if (of_class > kMostBytesOfClass) return false;
    if (of_class > kLeastBytesOfClass && bytes_ + bytes > kMostBytesOfAll) return false;
    batches_[k].push_back(batch);
    bytes_ += bytes;
    return true;
  }

 private:
  Shared() {
    for (size_t k = 0; k < kClasses; ++k) batches_[k].reserve(kMostBytesOfClass / (kBatch * BytesOf(k)));
  }

  Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<std::vector<Stack>, kClasses> batches_ ABSL_GUARDED_BY(mutex_);
};

// A thread's own, without constructors and destructors: an access costs no check of either.
struct Shelf {
  Stack first, second;  // the second is empty or a batch
};
constinit thread_local std::array<Shelf, kClasses> shelves = {};

// Whether the thread keeps blocks: not before its first one, and not while it ends.
constinit thread_local bool keeps = false;

struct Keeper {
  Keeper() { keeps = true; }
  ~Keeper() {
    keeps = false;
    for (Shelf& shelf : shelves) {
      shelf.first.Free();
      shelf.second.Free();
    }
  }
};

// The thread's first one makes the keeper; none after its end.
void Begin() { thread_local const Keeper keeper; }

// Where the first stack is empty.
ABSL_ATTRIBUTE_NOINLINE void* TakeElsewhere(size_t k) {
  auto& [first, second] = shelves[k];
  if (second.count > 0) {
    std::swap(first, second);
    return first.Pop();
  }
  if (!keeps) Begin();
  if (keeps && Shared::Get().Take(k, first)) return first.Pop();
  return ::operator new(BytesOf(k));
}

// Where the first stack is full, or the thread keeps none.
ABSL_ATTRIBUTE_NOINLINE void GiveElsewhere(void* block, size_t k) noexcept {
  if (!keeps) Begin();
  if (!keeps) return ::operator delete(block);
  auto& [first, second] = shelves[k];
  if (first.count == kBatch) {
    if (second.count > 0 && !Shared::Get().Give(k, second)) second.Free();
    second = std::exchange(first, {});
  }
  first.Push(block);
}

}  // namespace

void* TakeRecycled(size_t bytes) {
  if (bytes - 1 >= kMostRecycledBytes) return ::operator new(bytes);
  const size_t k = ClassOf(bytes);
  Stack& first = shelves[k].first;
  void* const block = first.count > 0 ? first.Pop() : TakeElsewhere(k);
  first.ExpectPop(bytes);
  return block;
}

void GiveRecycled(void* block, size_t bytes) noexcept {
  if (bytes - 1 >= kMostRecycledBytes) return ::operator delete(block);
  const size_t k = ClassOf(bytes);
  Stack& first = shelves[k].first;
  if (!keeps || first.count == kBatch) return GiveElsewhere(block, k);
  first.Push(block);
}

#endif

}  // namespace rnnserve
