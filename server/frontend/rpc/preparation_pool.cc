// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/preparation_pool.h"

#include <algorithm>

namespace rnnserve {

PreparationPool::PreparationPool(int threads) {
  for (int k = 0; k < std::max(threads, 1); ++k) threads_.emplace_back([this] { Work(); });
}

PreparationPool::~PreparationPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PreparationPool::Enqueue(std::coroutine_handle<> waiting) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(waiting);
  }
  wake_.notify_one();
}

void PreparationPool::Work() {
  for (;;) {
    std::coroutine_handle<> next;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      next = queue_.front();
      queue_.pop_front();
    }
    next.resume();
  }
}

}  // namespace rnnserve
