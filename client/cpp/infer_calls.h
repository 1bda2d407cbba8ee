// SPDX-License-Identifier: Apache-2.0
// Recurrent.Infer on the first of several servers that takes it. Infer keeps nothing on a server, so a call refused as
// UNAVAILABLE can be retried on any server. Inside the library only: it names gRPC.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/cpp/connection.h"
#include "client/cpp/tries.h"
#include "rnnserve/v1/recurrent.grpc.pb.h"

namespace rnnserve::client {

class InferCalls {
 public:
  // At least one, the preferred one first. `patience`: see ClientOptions.
  InferCalls(std::vector<Connection> servers, std::chrono::milliseconds patience);

  absl::Status Run(std::chrono::milliseconds timeout, const v1::InferRequest& request, v1::InferResponse& reply);

 private:
  struct Line {
    Connection connection;
    std::unique_ptr<v1::Recurrent::Stub> stub;
  };

  std::vector<size_t> InOrder(TryTime now) const;
  // The error of `server`; whether any server has answered yet.
  bool Note(size_t server, const absl::Status& status, TryTime now);

  std::vector<Line> lines_;
  const std::chrono::milliseconds patience_;

  mutable Mutex mutex_;
  Servers servers_ ABSL_GUARDED_BY(mutex_);
  bool has_answered_ ABSL_GUARDED_BY(mutex_) = false;  // a server has answered
};

}  // namespace rnnserve::client
