// SPDX-License-Identifier: Apache-2.0
// Tells the log of calls that failed by the server's fault, at most ten a second.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/telemetry/log_limit.h"

namespace rnnserve {

class CallLog {
 public:
  // INTERNAL, UNKNOWN and DATA_LOSS are told, with what the caller knows the call by; other codes are answers.
  void Ended(const std::string& method, const absl::Status& status, std::string_view request_id,
             const grpc::ServerContext& context);

 private:
  LogLimit limit_{absl::Milliseconds(100)};
};

// W3C Trace Context: 00-TRACE-PARENT-FLAGS in hexadecimal; "" if `value` is no such thing.
std::string_view CheckedTraceparent(std::string_view value);

}  // namespace rnnserve
