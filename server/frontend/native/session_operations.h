// SPDX-License-Identifier: Apache-2.0
// One Operation message, whatever carries it, to one OperationReply.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "rnnserve/v1/sessions.pb.h"
#include "server/core/session_core.h"

namespace rnnserve {

// The sender of an operation.
struct OperationSender {
  std::string tenant;
  uint64_t connection = 0;
  SessionOwner* owner = nullptr;  // of a stream; null: a unary call
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<std::atomic<bool>> cancelled;
};

// The reply, and for unary calls the status behind it.
struct OperationReplied {
  absl::Status status;
  v1::OperationReply reply;
  std::shared_ptr<void> held = {};     // released once the reply has been sent
  const CallMetrics* calls = nullptr;  // of its model; null: it is no request to a model
};
using OperationReplyDone = absl::AnyInvocable<void(OperationReplied)>;

// What a reply holds until it has been sent, as frontend/rpc takes it.
std::shared_ptr<void> Held(std::optional<ByteBudget::Share>& memory);

// The reply to an operation that is not run: the error has the session's numbers.
OperationReplied RefuseOperation(SessionCore& core, const v1::Operation& operation, const std::string& tenant,
                                 absl::Status why);

// `done` is called exactly once, on any thread. `operation` lives until then. Open runs long.
void RunOperation(SessionCore& core, const v1::Operation& operation, const OperationSender& sender,
                  OperationReplyDone done);

}  // namespace rnnserve
