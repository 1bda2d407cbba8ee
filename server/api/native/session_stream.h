// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.Recurrent.Stream: operations of many sessions over one stream, each answered with its own status.
#pragma once

#include <memory>

#include "server/api/native/session_operations.h"
#include "server/rpc/stream_call.h"
#include "server/sessions/execution/session_core.h"

namespace rnnserve {

class SessionStream final : public StreamHandler {
 public:
  SessionStream(SessionCore* core, std::shared_ptr<StreamCall> call) : core_(core), call_(std::move(call)) {}

  Task<absl::Status> OnMessage(grpc::ByteBuffer message, absl::StatusOr<CallAdmission::InFlight> in_flight) override;
  void OnDrain(absl::Time leaves_at) override;

 private:
  class Message;

  class PendingOperation;

  void Run(PendingOperation pending);
  // Elsewhere: packs weights, and no operation of the stream can depend on it before its reply.
  CallTask Open(PendingOperation pending);
  void SendReply(const PendingOperation& pending, EncodedReply replied);
  // The operation is: the stream may end, and this object with it.
  static void Finish(PendingOperation pending);
  // The same, with the reply.
  static void Finish(PendingOperation pending, ApplyReply&& answer);
  // The reply to an operation that is not run.
  EncodedReply Refusal(const PendingOperation& pending, const absl::Status& status);

  SessionCore* const core_;
  const std::shared_ptr<StreamCall> call_;
  SessionOwner owner_;
};

}  // namespace rnnserve
