// SPDX-License-Identifier: Apache-2.0
// The one place where errors of the core become errors of gRPC.
//
// Details follow google.rpc: BadRequest with the field path, ErrorInfo with reason (domain "rnnserve") and numbers of
// limits, RetryInfo where the same request may succeed later.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace rnnserve {

struct WireError {
  grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  std::string message;                    // valid UTF-8, at most about 1 KiB: clients bound their metadata
  std::string details;                    // google.rpc.Status, serialised, for grpc-status-details-bin
  std::optional<int32_t> retry_after_ms;  // for grpc-retry-pushback-ms
};

// `status` is not OK.
WireError ToWireError(const absl::Status& status);

}  // namespace rnnserve
