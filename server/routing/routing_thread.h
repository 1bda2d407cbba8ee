// SPDX-License-Identifier: Apache-2.0
// The thread that measures engines while no call waits for it: runs a router's trials one at a time and rests after
// each, so that they take a small share of the time. Stops the router when it goes.
#pragma once

#include <thread>

#include "base/mutex.h"
#include "server/routing/router.h"

namespace rnnserve {

class RoutingThread {
 public:
  // `router` outlives the thread.
  explicit RoutingThread(Router* router);
  ~RoutingThread();
  RoutingThread(const RoutingThread&) = delete;
  RoutingThread& operator=(const RoutingThread&) = delete;

 private:
  void Work();

  Router* const router_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
