// SPDX-License-Identifier: Apache-2.0
// Tells the log of calls that failed: by the server's fault, at most ten a second, and refused ones that tell an
// operator of attempts or of limits that are too narrow, at most one a second of each kind.
#pragma once

#include <grpcpp/server_context.h>

#include <array>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/telemetry/log_limit.h"

namespace rnnserve {

// What is known of the caller; what is "" is left out.
struct LoggedCaller {
  std::string_view tenant;
  std::string_view request_id;
  std::string_view peer = {};  // "": its context is asked
};

class CallLog {
 public:
  // Costs a call that succeeded nothing.
  void Ended(const std::string& method, const absl::Status& status, const LoggedCaller& caller,
             const grpc::ServerContext& context) {
    if (!status.ok()) Failed(method, status, caller, context);
  }

  // Before its message had come: all there is to see of one that gRPC refuses for its size.
  void BrokeOff(const std::string& method, const LoggedCaller& caller, const grpc::ServerContext& context);

  // Each kind has its own turn, so that a flood of one hides no other.
  enum class Kind {
    kFault,       // INTERNAL, UNKNOWN, DATA_LOSS: an error
    kToken,       // no known token: a warning, as the next ones
    kPermission,  // a token that may not do this
    kSession,     // a session's key that was never given out, or not to this tenant
    kTooLarge,    // beyond a fixed limit
    kModels,      // Load and Unload: names that are none, files that cannot be served
    kOther,       // a caller's mistakes, overload, what is not there: an answer, told at --log_level=debug
    kGivenUp,     // by the caller: never told
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
