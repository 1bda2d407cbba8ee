// SPDX-License-Identifier: Apache-2.0
// Sessions in files: `rnnctl sessions export` and `import`.
//
// The file is the JSON form of rnnserve.v1.GetStateResponse (number, position, fingerprint of the operator with its
// weights, tensors in base64) with two more fields: `format` and `crc32c`, the checksum of all the rest.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/session_types.h"

namespace rnnserve::rnnctl {

std::string FormatSession(const client::SessionState& state);

// Whatever the bytes: a clear refusal, or what FormatSession was given.
absl::StatusOr<client::SessionState> ParseSession(std::string_view file);

}  // namespace rnnserve::rnnctl
