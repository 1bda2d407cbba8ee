// SPDX-License-Identifier: Apache-2.0
#include "base/field_error.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rnnserve {
namespace {

constexpr char kFieldUrl[] = "rnnserve/field";
constexpr char kReasonUrl[] = "rnnserve/reason";
constexpr char kLimitUrl[] = "rnnserve/limit";  // "limit,value"

std::optional<std::string> Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status FieldError(std::string_view field, std::string_view message) {
  return WithField(absl::InvalidArgumentError(View(message)), field);
}

absl::Status WithField(absl::Status status, std::string_view field) {
  status.SetPayload(kFieldUrl, absl::Cord(View(field)));
  return status;
}

std::optional<std::string> FieldOf(const absl::Status& status) { return Payload(status, kFieldUrl); }

absl::Status WithFieldPrefix(absl::Status status, std::string_view prefix) {
  if (const std::optional<std::string> field = FieldOf(status)) {
    absl::Cord path{View(prefix)};
    path.Append(*field);
    status.SetPayload(kFieldUrl, std::move(path));
  }
  return status;
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kReasonUrl, absl::Cord(View(reason)));
  return status;
}

std::optional<std::string> ReasonOf(const absl::Status& status) { return Payload(status, kReasonUrl); }

absl::Status WithLimit(absl::Status status, LimitExcess excess) {
  status.SetPayload(kLimitUrl, absl::Cord(absl::StrCat(excess.limit, ",", excess.value)));
  return status;
}

std::optional<LimitExcess> LimitOf(const absl::Status& status) {
  const std::optional<std::string> payload = Payload(status, kLimitUrl);
  if (!payload) return std::nullopt;
  const std::pair<std::string, std::string> numbers = absl::StrSplit(*payload, ',');
  LimitExcess excess;
  if (!absl::SimpleAtoi(numbers.first, &excess.limit) || !absl::SimpleAtoi(numbers.second, &excess.value)) {
    return std::nullopt;
  }
  return excess;
}

}  // namespace rnnserve
