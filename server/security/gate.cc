// SPDX-License-Identifier: Apache-2.0
#include "server/security/gate.h"

#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

constexpr std::string_view kScheme = "Bearer ";

}  // namespace

absl::StatusOr<CallerPtr> Gate::Admit(const grpc::ServerContext& context, Permission permission) {
  if (tokens_ == nullptr) return anybody_;
  const auto header = context.client_metadata().find("authorization");
  if (header == context.client_metadata().end()) {
    return absl::UnauthenticatedError("no token; send metadata `authorization: Bearer TOKEN`");
  }
  const std::string_view value(header->second.data(), header->second.size());
  const bool is_bearer = absl::StartsWithIgnoreCase(absl::string_view(value.data(), value.size()),
                                                    absl::string_view(kScheme.data(), kScheme.size()));
  if (!is_bearer) {
    return absl::UnauthenticatedError("expected metadata `authorization: Bearer TOKEN`");
  }
  CallerPtr caller = tokens_->Find(value.substr(kScheme.size()));
  if (caller == nullptr) return absl::UnauthenticatedError("this token is not known here");
  if (permission == Permission::kChangeModels && !caller->may_change_models) {
    return absl::PermissionDeniedError(absl::StrCat(
        "tenant ", caller->tenant, " may not load, save or unload models; its token lacks `models` and `operator`"));
  }
  return caller;
}

}  // namespace rnnserve
