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
  using Report = std::function<void(const absl::StatusOr<RepositoryChanges>&)>;

  // `store` outlives it. `report` is called on the thread, after each scan.
  RepositoryWatch(ModelStore* store, absl::Duration period, Report report);
  // Waits for a running scan.
  ~RepositoryWatch();
  RepositoryWatch(const RepositoryWatch&) = delete;
  RepositoryWatch& operator=(const RepositoryWatch&) = delete;

 private:
  void Run();

  ModelStore* const store_;
  const absl::Duration period_;
  const Report report_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
