// SPDX-License-Identifier: Apache-2.0
// grpc.reflection.v1alpha.ServerReflection on the poller's own queue; gRPC's own brings threads that poll beside it.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/frontend/rpc/completion.h"
#include "server/frontend/rpc/poller.h"
#include "server/frontend/rpc/send_watch.h"
#include "server/telemetry/request_metrics.h"

namespace rnnserve {

class ReflectionService {
 public:
  // Lists these services, whose names outlive it.
  ReflectionService(std::span<const std::string_view> services, const RequestMetrics& requests)
      : metrics_(requests.Untimed("ServerReflection.ServerReflectionInfo")), services_(services) {}

  grpc::Service* grpc() { return &service_; }

  // Posts the slots, once the server runs. The service and the watch outlive the poller.
  void Serve(Poller& poller, SendWatch& send_watch);

 private:
  using Raw = grpc::reflection::v1alpha::ServerReflection::WithRawMethod_ServerReflectionInfo<
      grpc::reflection::v1alpha::ServerReflection::Service>;

  CallTask ServeStream(Poller& poller, SendWatch& send_watch);

  const std::unique_ptr<CallMetrics> metrics_;
  const std::span<const std::string_view> services_;
  Raw service_;
  int streams_ = 0;  // the poller's thread only
};

}  // namespace rnnserve
