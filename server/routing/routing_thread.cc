// SPDX-License-Identifier: Apache-2.0
#include "server/routing/routing_thread.h"

#include "absl/time/time.h"

namespace rnnserve {

RoutingThread::RoutingThread(Router* router) : router_(router), thread_([this] { Work(); }) {}

RoutingThread::~RoutingThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  router_->Stop();
  thread_.join();
}

void RoutingThread::Work() {
  while (router_->AwaitTrial()) {
    const absl::Duration rest = router_->RunTrial();
    MutexLock lock(mutex_);
    if (wake_.wait_for(lock, absl::ToChronoNanoseconds(rest),
                       [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; }))
      return;
  }
}

}  // namespace rnnserve
