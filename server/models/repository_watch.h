// SPDX-License-Identifier: Apache-2.0
// The thread that scans the repository folder at intervals.
#pragma once

#include <functional>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/models/model_store.h"

namespace rnnserve {

class RepositoryWatch {
 public:
  using Tell = std::function<void(const absl::StatusOr<RepositoryNews>&)>;

  // `store` outlives it. `tell` is called on the thread, after each scan.
  RepositoryWatch(ModelStore* store, absl::Duration period, Tell tell);
  // Waits for a running scan.
  ~RepositoryWatch();
  RepositoryWatch(const RepositoryWatch&) = delete;
  RepositoryWatch& operator=(const RepositoryWatch&) = delete;

 private:
  void Look();

  ModelStore* const store_;
  const absl::Duration period_;
  const Tell tell_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
