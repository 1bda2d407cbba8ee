// SPDX-License-Identifier: Apache-2.0
// The OperationReply of an applied change, and an InferResponse, straight to their bytes on the wire, as protobuf would
// write them: without a message, and with one copy of the outputs.
//
//   const size_t size = ReplySize(head, answer);      // answer.status is OK
//   uint8_t* end = WriteReply(head, answer, memory);  // of `size` bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rnnserve/v1/recurrent.pb.h"
#include "server/core/call.h"
#include "server/sessions/execution/session_calls.h"

namespace rnnserve {

// What a reply repeats of its operation; and what the operation is, for errors.
struct OperationHead {
  std::string_view request_id;
  std::string_view session;
  std::optional<uint64_t> number;
  v1::Operation::KindCase kind = v1::Operation::KIND_NOT_SET;
};
OperationHead HeadOf(const v1::Operation& operation);

size_t ReplySize(const OperationHead& head, const ApplyReply& answer);
uint8_t* WriteReply(const OperationHead& head, const ApplyReply& answer, uint8_t* to);

size_t ReplySize(std::string_view request_id, const InferReply& reply);
uint8_t* WriteReply(std::string_view request_id, const InferReply& reply, uint8_t* to);

}  // namespace rnnserve
