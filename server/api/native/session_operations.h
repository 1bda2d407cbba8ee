// SPDX-License-Identifier: Apache-2.0
// One Operation message, whatever carries it, to one OperationReply.
#pragma once

#include <grpcpp/support/slice.h>

#include <optional>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "rnnserve/v1/sessions.pb.h"
#include "server/api/native/reply_bytes.h"
#include "server/sessions/execution/session_core.h"

namespace rnnserve {

// The reply as a part (reply_bytes.h), and for unary calls the status behind it.
struct EncodedReply {
  absl::Status status;
  grpc::Slice part;
  std::optional<ByteBudget::Share> held = {};  // released once the reply has been sent
  const CallMetrics* calls = nullptr;          // of its model; null: it is no request to a model
};
using EncodedReplyDone = absl::AnyInvocable<void(EncodedReply)>;

// The reply to an operation that is not run: the error tells where its session is.
EncodedReply RefuseOperation(SessionCore& core, const OperationHead& head, std::string_view tenant, absl::Status why);

// Whether the operation changes its session: then SessionCore::Apply takes what DecodeOperation makes of it, and
// ReplyTo encodes its reply.
bool IsChange(const v1::Operation& operation);
EncodedReply ReplyTo(const OperationHead& head, ApplyReply answer);

// Any operation. `done` is called exactly once, on any thread. `operation` lives until then. Open runs long.
void RunOperation(SessionCore& core, const v1::Operation& operation, const OperationSender& sender,
                  EncodedReplyDone done);

}  // namespace rnnserve
