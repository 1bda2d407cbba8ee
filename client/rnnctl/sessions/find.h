// SPDX-License-Identifier: Apache-2.0
// Finds the session that a user names.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/session_client.h"

namespace rnnserve::rnnctl {

// The live session that is meant by a key, a name, or the beginning of a key.
absl::StatusOr<client::SessionInfo> FindSession(client::SessionClient& sessions, const std::string& word);

// A whole key is taken as it is, so that the server itself says what has become of it.
absl::StatusOr<std::string> FindKey(client::SessionClient& sessions, const std::string& word);

}  // namespace rnnserve::rnnctl
