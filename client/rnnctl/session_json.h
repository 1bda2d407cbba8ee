// SPDX-License-Identifier: Apache-2.0
// Sessions in protobuf's JSON mapping of rnnserve.v1 (field names as in the .proto files), for scripts and files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/rnn_stream.h"
#include "client/cpp/session_types.h"

namespace rnnserve::rnnctl {

std::string ToJsonLine(const client::ChunkResult& result);             // OperationReply, typed lists, one line
std::string ToJson(const std::vector<client::SessionInfo>& sessions);  // ListSessionsResponse
std::string ToJson(const client::SessionInfo& session);                // client::SessionInfo
std::string ToJson(const client::OpenedSession& opened);               // OpenResponse
std::string ToJson(const client::ForkedSessions& forked);              // ForkResponse
std::string ToJson(const client::SessionState& state);                 // GetStateResponse, raw bytes

// What ToJson made of a state, and perhaps more fields.
absl::StatusOr<client::SessionState> ParseStateJson(std::string_view json);

// The text in a field of an object; empty if it has none, or is no JSON.
std::string JsonField(std::string_view json, const std::string& name);
// A text with its quotation marks.
std::string JsonText(const std::string& text);

}  // namespace rnnserve::rnnctl
