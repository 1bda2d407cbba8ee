// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health on the poller's own queue. gRPC's built-in service would bring threads that poll beside the
// poller: each wakes the other, which costs a short call half its time.
#pragma once

#include <memory>

#include "base/completion.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/admission/fair_bound.h"
#include "server/api/health/health_board.h"
#include "server/rpc/poller.h"
#include "server/telemetry/request_metrics.h"

namespace rnnserve {

class HealthService {
 public:
  // Watch calls at once; further ones are RESOURCE_EXHAUSTED. No connection gets all of them (FairBound).
  HealthService(int max_watches, const RequestMetrics& requests)
      : check_metrics_(requests.Untimed("Health.Check")),
        watch_metrics_(requests.Untimed("Health.Watch")),
        watches_(max_watches) {}

  grpc::Service* grpc() { return &service_; }
  HealthBoard& board() { return board_; }

  // Posts the slots, once the server runs. The service outlives the poller.
  void Serve(Poller& poller);

 private:
  using Raw = grpc::health::v1::Health::WithRawMethod_Check<
      grpc::health::v1::Health::WithRawMethod_Watch<grpc::health::v1::Health::Service>>;
  struct WatchCall;

  CallTask ServeCheck(Poller& poller);
  CallTask ServeWatch(Poller& poller);

  const std::unique_ptr<CallMetrics> check_metrics_;
  const std::unique_ptr<CallMetrics> watch_metrics_;
  HealthBoard board_;
  Raw service_;
  FairBound watches_;  // the poller's thread only
};

}  // namespace rnnserve
