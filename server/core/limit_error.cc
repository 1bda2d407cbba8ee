// SPDX-License-Identifier: Apache-2.0
#include "server/core/limit_error.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/op/field_error.h"
#include "server/telemetry/rejection.h"

namespace rnnserve {
namespace {

constexpr char kLimitUrl[] = "rnnserve/limit";  // "limit,value"

}  // namespace

absl::Status LimitError(std::string_view field, std::string_view message, LimitExcess excess) {
  absl::Status status = WithReason(FieldError(field, message), "LIMIT_EXCEEDED");
  status = WithRejection(std::move(status), Rejection::kTooLarge);
  status.SetPayload(kLimitUrl, absl::Cord(absl::StrCat(excess.limit, ",", excess.value)));
  return status;
}

std::optional<LimitExcess> LimitOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kLimitUrl);
  if (!payload) return std::nullopt;
  const std::pair<std::string, std::string> numbers = absl::StrSplit(std::string(*payload), ',');
  LimitExcess excess;
  if (!absl::SimpleAtoi(numbers.first, &excess.limit) || !absl::SimpleAtoi(numbers.second, &excess.value)) {
    return std::nullopt;
  }
  return excess;
}

}  // namespace rnnserve
