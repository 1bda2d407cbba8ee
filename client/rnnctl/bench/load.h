// SPDX-License-Identifier: Apache-2.0
// Calls over gRPC: one thread, one asynchronous completion queue, requests serialised beforehand, replies left as
// bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

struct CallerOptions {
  std::vector<std::string> addresses;  // at least one; a call goes where the fewest are under way
  client::ClientOptions client;
  size_t slots = 1;
  // Whether replies are InferResponses.
  bool read_times = true;
  std::optional<double> check;
};

// Connects first; kCannotConnect if it cannot. `bodies` are serialised InferRequests.
absl::StatusOr<std::unique_ptr<Sender>> MakeGrpcCaller(const CallerOptions& options,
                                                       const std::vector<std::string>& bodies);

}  // namespace rnnserve::rnnctl::bench
