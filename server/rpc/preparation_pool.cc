// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/preparation_pool.h"

#include <algorithm>

#include "server/telemetry/release_caches.h"

namespace rnnserve {

PreparationPool::PreparationPool(int threads) {
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

void PreparationPool::Enqueue(std::coroutine_handle<> waiting, uint64_t caller) {
  {
    MutexLock lock(mutex_);
    std::deque<std::coroutine_handle<>>& own = queues_[caller];
    if (own.empty()) turns_.push_back(caller);
    own.push_back(waiting);
  }
  wake_.notify_one();
}

std::coroutine_handle<> PreparationPool::TakeNext() {
  const auto own = queues_.find(turns_.front());
  turns_.pop_front();
  const std::coroutine_handle<> next = own->second.front();
  own->second.pop_front();
  if (own->second.empty()) {
    queues_.erase(own);
  } else {
    turns_.push_back(own->first);
  }
  return next;
}

void PreparationPool::Work() {
  for (;;) {
    std::coroutine_handle<> next;
    {
      MutexLock lock(mutex_);
      wake_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !turns_.empty(); });
      if (turns_.empty()) return;
      next = TakeNext();
    }
    next.resume();
    ReleaseCachesIfAsked();
  }
}

}  // namespace rnnserve
