// SPDX-License-Identifier: Apache-2.0
// grpc.reflection.v1.ServerReflection and v1alpha on the poller's own queue; gRPC's own brings threads that poll beside
// it. The two are the same bytes under two names.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "base/completion.h"
#include "server/admission/send_watch.h"
#include "server/rpc/poller.h"
#include "server/rpc/raw_service.h"
#include "server/telemetry/request_metrics.h"

namespace rnnserve {

class ReflectionService {
 public:
  // Lists these services, whose names outlive it.
  ReflectionService(std::span<const std::string_view> services, const RequestMetrics& requests);

  grpc::Service* grpc() { return &service_; }

  // Posts the slots, once the server runs. The service and the watch outlive the poller.
  void Serve(Poller& poller, SendWatch& send_watch);

 private:
  CallTask ServeStream(int method, Poller& poller, SendWatch& send_watch);

  const std::unique_ptr<CallMetrics> metrics_;
  const std::span<const std::string_view> services_;
  RawService service_;
  const std::array<int, 2> methods_;
  int streams_ = 0;  // the poller's thread only
};

}  // namespace rnnserve
