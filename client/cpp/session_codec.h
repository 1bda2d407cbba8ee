// SPDX-License-Identifier: Apache-2.0
// Between the client's plain session types and rnnserve.v1. Inside the library only: it names protobuf.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "client/cpp/session_types.h"
#include "rnnserve/v1/sessions.pb.h"

namespace rnnserve::client {

v1::OpenRequest EncodeOpen(const SessionSpec& spec);
void Encode(std::span<const Tensor> state, v1::StateTensors& wire);
void Encode(std::chrono::nanoseconds time, google::protobuf::Duration& wire);

OpenedSession DecodeOpened(const v1::OpenResponse& wire);
absl::StatusOr<SessionState> DecodeState(v1::GetStateResponse& wire);
SessionInfo DecodeSession(const v1::SessionInfo& wire);

}  // namespace rnnserve::client
