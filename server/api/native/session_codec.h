// SPDX-License-Identifier: Apache-2.0
// Messages of rnnserve.v1.Sessions and Recurrent.Stream <-> calls of SessionCore. Tensor views point into the request,
// which is on an arena (tensor_codec.h). Field paths are those within the message given; callers put theirs before.
#pragma once

#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "rnnserve/v1/sessions.pb.h"
#include "server/sessions/execution/session_calls.h"

namespace rnnserve {

// Of request ids and names, in bytes; of priorities, either way.
inline constexpr size_t kMaxOperationText = 128;
inline constexpr int32_t kMaxOperationPriority = 100;

absl::StatusOr<OpenCall> DecodeOpen(const v1::OpenRequest& request);
// One that changes the session.
absl::StatusOr<OperationCall> DecodeOperation(const v1::Operation& operation, const OperationSender& sender);
absl::StatusOr<ReadCall> DecodeGetState(const v1::GetStateRequest& request);
absl::StatusOr<ReadCall> DecodeCheckpoint(const v1::CheckpointRequest& request);
absl::StatusOr<ForkCall> DecodeFork(const v1::ForkRequest& request);
absl::StatusOr<int64_t> DecodePageSize(const v1::ListSessionsRequest& request);

void EncodeDuration(absl::Duration duration, google::protobuf::Duration& message);
void EncodeTensor(const OutputTensor& tensor, v1::Tensor& message);
void EncodeOpen(const OpenReply& reply, v1::OpenResponse& response);
void EncodeGetState(StateReply reply, v1::GetStateResponse& response);
void EncodeCheckpoint(const Numbers& numbers, v1::CheckpointResponse& response);
void EncodeFork(ForkedSessions forked, v1::ForkResponse& response);
void EncodeList(SessionInfos infos, v1::ListSessionsResponse& response);
void EncodeNumbers(const Numbers& numbers, v1::OperationReply& reply);
// Sets the reply's OperationStatus, with details. `status` is not OK.
void EncodeStatus(const absl::Status& status, v1::OperationReply& reply);

}  // namespace rnnserve
