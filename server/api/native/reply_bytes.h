// SPDX-License-Identifier: Apache-2.0
// The OperationReply of an applied change, and an InferResponse, straight to their bytes on the wire, as protobuf would
// write them: without a message, and with one copy of the outputs.
//
//   const OperationReplyBytes reply(head, answer);    // both outlive it; answer.status is OK
//   uint8_t* end = reply.Write(memory);            // of reply.size() bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rnnserve/v1/recurrent.pb.h"
#include "server/core/call.h"
#include "server/sessions/execution/session_calls.h"

namespace rnnserve {

// What a reply repeats of its operation.
struct OperationHead {
  std::string_view request_id;
  std::string_view session;
  std::optional<uint64_t> number;
};

class OperationReplyBytes {
 public:
  OperationReplyBytes(const OperationHead& head, const ApplyReply& answer);

  size_t size() const { return size_; }
  uint8_t* Write(uint8_t* to) const;

 private:
  const OperationHead& head_;
  const ApplyReply& answer_;
  size_t size_;
};

class InferBytes {
 public:
  // Both outlive it.
  InferBytes(std::string_view request_id, const InferReply& reply);

  size_t size() const { return size_; }
  uint8_t* Write(uint8_t* to) const;

 private:
  const std::string_view request_id_;
  const InferReply& reply_;
  size_t size_;
};

}  // namespace rnnserve
