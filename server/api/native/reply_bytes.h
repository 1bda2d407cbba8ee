// SPDX-License-Identifier: Apache-2.0
// The OperationReply of an applied change, straight to its bytes on the wire (wire_writer.h).
//
//   const size_t size = ReplySize(head, answer);      // answer.status is OK
//   uint8_t* end = WriteReply(head, answer, memory);  // of `size` bytes
//
// An OperationReply is field 1 of what carries it, a StreamResponse or an ApplyResponse: a *part*, a few bytes and the
// reply. Serialised messages of repeated fields may simply follow one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "rnnserve/v1/sessions.pb.h"
#include "server/sessions/execution/session_operation.h"

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

size_t PartSize(size_t reply_size);
// Returns where the reply goes.
uint8_t* BeginPart(size_t reply_size, uint8_t* to);
// The part of a StreamResponse that the reply is, somewhere in `room`; empty where the reply might need more.
std::span<const uint8_t> WritePart(const OperationHead& head, const ApplyReply& answer, std::span<uint8_t> room);

}  // namespace rnnserve
