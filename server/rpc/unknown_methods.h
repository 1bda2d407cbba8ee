// SPDX-License-Identifier: Apache-2.0
// Calls of methods that are not here: UNIMPLEMENTED, as gRPC answers them by itself, but counted.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <memory>

#include "base/completion.h"
#include "server/rpc/poller.h"
#include "server/telemetry/request_metrics.h"

namespace rnnserve {

class UnknownMethods {
 public:
  explicit UnknownMethods(const RequestMetrics& requests) : metrics_(requests.Untimed("(unknown)")) {}

  grpc::AsyncGenericService* grpc() { return &service_; }

  // Posts the slot, once the server runs. This outlives the poller.
  void Serve(Poller& poller) { ServeOne(poller); }

 private:
  CallTask ServeOne(Poller& poller);

  const std::unique_ptr<CallMetrics> metrics_;
  grpc::AsyncGenericService service_;
};

}  // namespace rnnserve
