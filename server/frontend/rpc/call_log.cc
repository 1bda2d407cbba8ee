// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/rpc/call_log.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/telemetry/log.h"
#include "server/telemetry/steady_now.h"

namespace rnnserve {
namespace {

constexpr std::string_view kTraceparentShape = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

std::string_view TraceparentOf(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("traceparent");
  if (found == context.client_metadata().end()) return "";
  return CheckedTraceparent({found->second.data(), found->second.size()});
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

void CallLog::Ended(const std::string& method, const absl::Status& status, std::string_view request_id,
                    const grpc::ServerContext& context) {
  const bool is_our_fault = absl::IsInternal(status) || absl::IsUnknown(status) || absl::IsDataLoss(status);
  if (!is_our_fault) return;
  const auto skipped = limit_.Allow(SteadyNow());
  if (!skipped) return;
  const std::string more = *skipped == 0 ? "" : absl::StrCat(*skipped);
  LogError(absl::StrCat(method, ": ", absl::StatusCodeToString(status.code()), ": ", status.message()),
           {{"request_id", request_id},
            {"traceparent", TraceparentOf(context)},
            {"peer", context.peer()},
            {"untold_before", more}});
}

}  // namespace rnnserve
