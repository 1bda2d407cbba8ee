// SPDX-License-Identifier: Apache-2.0
#include "server/models/repository_watch.h"

#include <utility>

namespace rnnserve {

RepositoryWatch::RepositoryWatch(ModelStore* store, absl::Duration period, Report report)
    : store_(store), period_(period), report_(std::move(report)), thread_([this] { Run(); }) {}

RepositoryWatch::~RepositoryWatch() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void RepositoryWatch::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (stopped_.wait_for(lock, absl::ToChronoNanoseconds(period_)) != std::cv_status::timeout) continue;
    lock.unlock();
    report_(store_->Rescan());
    lock.lock();
  }
}

}  // namespace rnnserve
