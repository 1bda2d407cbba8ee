// SPDX-License-Identifier: Apache-2.0
// Recurrent.Infer on the first of several servers that takes it. Infer keeps nothing on a server, so a call refused as
// UNAVAILABLE can be retried on any server. Inside the library only: it names gRPC.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/cpp/connection.h"
#include "client/cpp/lookup.h"
#include "client/cpp/servers.h"
#include "client/cpp/tries.h"
#include "rnnserve/v1/recurrent.grpc.pb.h"

namespace rnnserve::client {

class InferCalls {
 public:
  // At least one target; see ClientOptions.
  InferCalls(std::vector<std::string> targets, ClientOptions options, Resolve resolve = ResolveHost);
  ~InferCalls();

  // `with_weights` makes a request that needs nothing on the server. A server without the fingerprint is asked again
  // with it.
  absl::Status Run(std::chrono::milliseconds timeout, const v1::InferRequest& request, v1::InferResponse& reply,
                   std::function<v1::InferRequest()> with_weights = nullptr);

  const Servers& servers() const { return servers_; }

 private:
  struct Line {
    Connection connection;
    std::unique_ptr<v1::Recurrent::Stub> stub;
  };

  // The first call waits for the addresses of names, later ones have them looked up beside.
  void LookUp(TryTime now);
  void Look();
  absl::StatusOr<std::shared_ptr<Line>> LineTo(const std::string& address);
  absl::Status Call(const std::string& address, std::chrono::milliseconds timeout, const v1::InferRequest& request,
                    v1::InferResponse& reply);
  // The answer of `address`; whether any server has answered yet.
  bool Note(const std::string& address, const absl::Status& status, TryTime now);

  const ClientOptions options_;
  Servers servers_;

  Lookup lookup_;

  Mutex mutex_;
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_looked_ ABSL_GUARDED_BY(mutex_) = false;
  TryTime look_at_ ABSL_GUARDED_BY(mutex_);
  std::thread looker_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Line>> lines_ ABSL_GUARDED_BY(mutex_);  // by address
  bool has_answered_ ABSL_GUARDED_BY(mutex_) = false;                           // a server has answered
};

}  // namespace rnnserve::client
