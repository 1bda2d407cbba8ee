// SPDX-License-Identifier: Apache-2.0
#include "base/retry_delay.h"

#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

constexpr char kRetryUrl[] = "rnnserve/retry_delay_us";

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryUrl, absl::Cord(absl::StrCat(absl::ToInt64Microseconds(delay))));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryUrl);
  int64_t microseconds = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &microseconds)) return std::nullopt;
  if (microseconds == absl::ToInt64Microseconds(absl::InfiniteDuration())) return absl::InfiniteDuration();
  return absl::Microseconds(microseconds);
}

}  // namespace rnnserve
