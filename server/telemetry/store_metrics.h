// SPDX-License-Identifier: Apache-2.0
// What the connection to the session store counts.
//
//   StoreMetrics metrics(registry);                                  // one for the process
//   metrics.Count(StoreOperation::kWrite, status.code(), took);
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

enum class StoreOperation { kWrite, kTake, kRead };

class StoreMetrics {
 public:
  explicit StoreMetrics(Metrics& metrics);

  void Count(StoreOperation operation, absl::StatusCode result, absl::Duration took);

  const std::shared_ptr<Counter> sent;
  const std::shared_ptr<Counter> received;
  const std::shared_ptr<Gauge> reachable;  // 1 or 0
  const std::shared_ptr<Gauge> queued;     // requests without an answer

 private:
  std::map<std::pair<StoreOperation, absl::StatusCode>, std::shared_ptr<Counter>> operations_;
  std::map<StoreOperation, std::shared_ptr<Histogram>> durations_;

  explicit StoreMetrics(Metrics& metrics, CounterFamily& bytes);
};

}  // namespace rnnserve
