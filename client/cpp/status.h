// SPDX-License-Identifier: Apache-2.0
// From a call's grpc::Status with its google.rpc details to an absl::Status that FieldOf and ReasonOf understand.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace rnnserve::v1 {
class OperationStatus;
}

namespace rnnserve::client {

// Code and text as they are. Of the details: the field path of the first BadRequest violation, the reason of ErrorInfo,
// the delay of RetryInfo. Details that do not parse are passed over: they come from outside.
absl::Status FromGrpc(const grpc::Status& status);
// Of one operation of a session.
absl::Status FromOperation(const v1::OperationStatus& status);

// The server's retry delay: after it the same call may succeed.
std::optional<std::chrono::milliseconds> RetryDelayOf(const absl::Status& status);

// Of SESSION_ENDED, while the server still knows it: "closed" or "expired".
std::optional<std::string> EndCauseOf(const absl::Status& status);

}  // namespace rnnserve::client
