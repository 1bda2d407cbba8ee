// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/preparation_pool.h"

#include <algorithm>

#include "server/telemetry/release_caches.h"

namespace rnnserve {

PreparationPool::PreparationPool(int threads, std::function<void(bool)> work) : work_(std::move(work)) {
  for (int k = 0; k < std::max(threads, 1); ++k) threads_.emplace_back([this] { Work(); });
}

PreparationPool::~PreparationPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool PreparationPool::Enqueue(Entry entry, uint64_t caller, int most) {
  {
    MutexLock lock(mutex_);
    if (busy_ >= most) return false;
    std::deque<Entry>& own = queues_[caller];
    if (own.empty()) turns_.push_back(caller);
    own.push_back(entry);
    ++busy_;
  }
  wake_.notify_one();
  return true;
}

PreparationPool::Entry PreparationPool::TakeNext() {
  const auto own = queues_.find(turns_.front());
  turns_.pop_front();
  const Entry next = own->second.front();
  own->second.pop_front();
  if (own->second.empty()) {
    queues_.erase(own);
  } else {
    turns_.push_back(own->first);
  }
  return next;
}

void PreparationPool::Work() {
  int done = 0;
  for (;; done = 1) {
    Entry next;
    {
      MutexLock lock(mutex_);
      busy_ -= done;
      wake_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !turns_.empty(); });
      if (turns_.empty()) return;
      next = TakeNext();
    }
    if (next.collects) work_(true);
    next.waiting.resume();
    if (next.collects) work_(false);
    ReleaseCachesIfAsked();
  }
}

}  // namespace rnnserve
