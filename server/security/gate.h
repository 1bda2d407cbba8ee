// SPDX-License-Identifier: Apache-2.0
// The caller of a call, and whether it is allowed: `authorization: Bearer TOKEN` of a call's metadata.
#pragma once

#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/security/tokens.h"

namespace rnnserve {

enum class Permission { kUse, kChangeModels };

class Gate {
 public:
  // Null: every caller has all permissions.
  explicit Gate(std::unique_ptr<Tokens> tokens) : tokens_(std::move(tokens)) {}

  // UNAUTHENTICATED without a known token, PERMISSION_DENIED if it does not give `permission`.
  absl::StatusOr<CallerPtr> Admit(const grpc::ServerContext& context, Permission permission);

  // Called, on another thread, when tokens may have been taken away. Empty: not called any more.
  void OnChange(std::function<void()> told) {
    if (tokens_ != nullptr) tokens_->OnChange(std::move(told));
  }

 private:
  const std::unique_ptr<Tokens> tokens_;
  const CallerPtr anybody_ = std::make_shared<Caller>();
};

}  // namespace rnnserve
