// SPDX-License-Identifier: Apache-2.0
// One Operation message, whatever carries it, to one OperationReply.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "rnnserve/v1/sessions.pb.h"
#include "server/api/native/reply_bytes.h"
#include "server/sessions/execution/session_core.h"

namespace rnnserve {

// The sender of an operation.
struct OperationSender {
  std::string_view tenant;
  uint64_t caller_id = 0;
  SessionOwner* owner = nullptr;  // of a stream; null: a unary call
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<std::atomic<bool>> cancelled;
};

// The reply, and for unary calls the status behind it.
struct EncodedReply {
  absl::Status status;
  v1::OperationReply reply;
  std::optional<ByteBudget::Share> held = {};  // released once the reply has been sent
  const CallMetrics* calls = nullptr;          // of its model; null: it is no request to a model
};
using EncodedReplyDone = absl::AnyInvocable<void(EncodedReply)>;

// The reply to an operation that is not run: the error tells where its session is.
EncodedReply RefuseOperation(SessionCore& core, const OperationHead& head, std::string_view tenant, absl::Status why);

// Whether the operation changes its session: then SessionCore::Apply takes what DecodeOperation makes of it, SentBy
// `sender`, and ReplyTo encodes its reply.
bool IsChange(const v1::Operation& operation);
OperationCall SentBy(const OperationSender& sender, OperationCall call);
EncodedReply ReplyTo(const OperationHead& head, ApplyReply answer);

// Any operation. `done` is called exactly once, on any thread. `operation` lives until then. Open runs long.
void RunOperation(SessionCore& core, const v1::Operation& operation, const OperationSender& sender,
                  EncodedReplyDone done);

}  // namespace rnnserve
