// SPDX-License-Identifier: Apache-2.0
// Logs calls that failed by the server's fault, at most ten a second, and refused calls that may be an attack or show a
// limit that is too low, at most one a second of each kind.
#pragma once

#include <grpcpp/server_context.h>

#include <array>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/telemetry/log_limit.h"

namespace rnnserve {

// The fields of a caller; the log omits empty ones.
struct LoggedCaller {
  std::string_view tenant;
  std::string_view request_id;
  std::string_view peer = {};  // "": taken from the context
};

class CallLog {
 public:
  // Free for a call that succeeded.
  void Ended(const std::string& method, const absl::Status& status, const LoggedCaller& caller,
             const grpc::ServerContext& context) {
    if (!status.ok()) Failed(method, status, caller, context);
  }

  // The call ended before its message had come. A message that gRPC refuses for its size looks like this.
  void BrokeOff(const std::string& method, const LoggedCaller& caller, const grpc::ServerContext& context);

  // Each kind has its own rate limit, so that a flood of one does not hide the others.
  enum class Kind {
    kFault,       // INTERNAL, UNKNOWN, DATA_LOSS: an error
    kToken,       // no known token: a warning, as the next ones
    kPermission,  // a token that may not do this
    kSession,     // a session's key that was never given out, or not to this tenant
    kTooLarge,    // beyond a fixed limit
    kModels,      // Load and Unload: names that are none, files that cannot be served
    kOther,       // a caller's mistake, overload, an unknown name: logged at --log_level=debug
    kGivenUp,     // cancelled by the caller: never logged
  };
  static Kind KindOf(std::string_view method, const absl::Status& status);

 private:
  void Failed(const std::string& method, const absl::Status& status, const LoggedCaller& caller,
              const grpc::ServerContext& context);

  LogLimit& LimitOf(Kind kind) { return kind == Kind::kFault ? fault_limit_ : limits_[static_cast<size_t>(kind)]; }

  LogLimit fault_limit_{absl::Milliseconds(100)};
  std::array<LogLimit, static_cast<size_t>(Kind::kGivenUp)> limits_;
  LogLimit broke_off_limit_;
};

// W3C Trace Context: 00-TRACE-PARENT-FLAGS in hexadecimal; "" if `value` is no such thing.
std::string_view CheckedTraceparent(std::string_view value);

}  // namespace rnnserve
