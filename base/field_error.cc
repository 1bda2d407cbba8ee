// SPDX-License-Identifier: Apache-2.0
#include "base/field_error.h"

#include <utility>

#include "base/status_payload.h"

namespace rnnserve {
namespace {

constexpr char kFieldUrl[] = "rnnserve/field";
constexpr char kReasonUrl[] = "rnnserve/reason";
constexpr char kLimitUrl[] = "rnnserve/limit";  // "limit,value"

}  // namespace

absl::Status FieldError(std::string_view field, std::string_view message) {
  return WithField(absl::InvalidArgumentError(View(message)), field);
}

absl::Status WithField(absl::Status status, std::string_view field) {
  SetPayload(status, kFieldUrl, field);
  return status;
}

std::optional<std::string> FieldOf(const absl::Status& status) { return PayloadOf(status, kFieldUrl); }

absl::Status WithFieldPrefix(absl::Status status, std::string_view prefix) {
  if (const std::optional<std::string> field = FieldOf(status)) {
    absl::Cord path{View(prefix)};
    path.Append(*field);
    status.SetPayload(kFieldUrl, std::move(path));
  }
  return status;
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  SetPayload(status, kReasonUrl, reason);
  return status;
}

std::optional<std::string> ReasonOf(const absl::Status& status) { return PayloadOf(status, kReasonUrl); }

absl::Status WithLimit(absl::Status status, LimitExcess excess) {
  SetPair(status, kLimitUrl, excess.limit, excess.value);
  return status;
}

std::optional<LimitExcess> LimitOf(const absl::Status& status) {
  const auto numbers = PairOf<int64_t>(status, kLimitUrl);
  if (!numbers) return std::nullopt;
  return LimitExcess{.limit = numbers->first, .value = numbers->second};
}

}  // namespace rnnserve
