// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/call_log.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/rejection.h"
#include "base/steady_now.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr size_t kMostMessage = 1024;  // some quote what the caller sent
constexpr std::string_view kTraceparentShape = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

std::string_view TraceparentOf(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("traceparent");
  if (found == context.client_metadata().end()) return "";
  return CheckedTraceparent({found->second.data(), found->second.size()});
}

void LogCall(void (*log)(std::string_view, LogFields), const std::string& text, int64_t skipped,
             const LoggedCaller& caller, const grpc::ServerContext& context) {
  const std::string more = skipped == 0 ? "" : absl::StrCat(skipped);
  std::string peer = caller.peer.empty() ? context.peer() : std::string(caller.peer);
  if (peer == "unknown") peer.clear();  // the call is over
  log(text, {{"request_id", caller.request_id},
             {"traceparent", TraceparentOf(context)},
             {"tenant", caller.tenant},
             {"peer", peer},
             {"suppressed_before", more}});
}

}  // namespace

std::string_view CheckedTraceparent(std::string_view value) {
  if (value.size() != kTraceparentShape.size()) return "";
  for (size_t k = 0; k < value.size(); ++k) {
    const auto c = static_cast<unsigned char>(value[k]);
    const bool fits = kTraceparentShape[k] == 'x' ? absl::ascii_isxdigit(c) : value[k] == kTraceparentShape[k];
    if (!fits) return "";
  }
  return value;
}

CallLog::Kind CallLog::KindOf(std::string_view method, const absl::Status& status) {
  if (absl::IsInternal(status) || absl::IsUnknown(status) || absl::IsDataLoss(status)) return Kind::kFault;
  const std::optional<Rejection> why = RejectionOf(status);
  if (!why) return Kind::kGivenUp;
  if (absl::IsUnauthenticated(status)) return Kind::kToken;
  if (absl::IsPermissionDenied(status)) return Kind::kPermission;
  if (*why == Rejection::kTooLarge) return Kind::kTooLarge;
  if (*why != Rejection::kInvalid) return Kind::kOther;
  if (method == "Models.Load" || method == "Models.Upload" || method == "Models.Unload") return Kind::kModels;
  return ReasonOf(status) == "SESSION_UNKNOWN" ? Kind::kSession : Kind::kOther;
}

void CallLog::Failed(const std::string& method, const absl::Status& status, const LoggedCaller& caller,
                     const grpc::ServerContext& context) {
  const Kind kind = KindOf(method, status);
  if (kind == Kind::kGivenUp) return;
  const auto skipped = LimitOf(kind).Allow(SteadyNow());
  if (!skipped) return;
  const auto log = kind == Kind::kFault ? LogError : kind == Kind::kOther ? LogDebug : LogWarning;
  LogCall(log,
          absl::StrCat(method, kind == Kind::kFault ? ": " : " refused: ", absl::StatusCodeToString(status.code()),
                       ": ", status.message().substr(0, kMostMessage)),
          *skipped, caller, context);
}

void CallLog::BrokeOff(const std::string& method, const LoggedCaller& caller, const grpc::ServerContext& context) {
  const auto skipped = broke_off_limit_.Allow(SteadyNow());
  if (!skipped) return;
  LogCall(LogInfo,
          absl::StrCat(method, " broke off: its caller gave up, or its message is larger than --max_message_bytes"),
          *skipped, caller, context);
}

}  // namespace rnnserve
