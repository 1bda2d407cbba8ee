// SPDX-License-Identifier: Apache-2.0
#include "server/models/repository_watch.h"

#include <utility>

namespace rnnserve {

RepositoryWatch::RepositoryWatch(ModelStore* store, absl::Duration period, Tell tell)
    : store_(store), period_(period), tell_(std::move(tell)), thread_([this] { Look(); }) {}

RepositoryWatch::~RepositoryWatch() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void RepositoryWatch::Look() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (stopped_.wait_for(lock, absl::ToChronoNanoseconds(period_)) != std::cv_status::timeout) continue;
    lock.unlock();
    tell_(store_->LookAgain());
    lock.lock();
  }
}

}  // namespace rnnserve
