// SPDX-License-Identifier: Apache-2.0
// Errors of fixed limits: INVALID_ARGUMENT with reason LIMIT_EXCEEDED, since the same request will not fit later
// either.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace rnnserve {

struct LimitExcess {
  int64_t limit = 0;
  int64_t value = 0;  // what came
};

// A FieldError with reason LIMIT_EXCEEDED that remembers both numbers for google.rpc.ErrorInfo.
absl::Status LimitError(std::string_view field, std::string_view message, LimitExcess excess);
std::optional<LimitExcess> LimitOf(const absl::Status& status);

}  // namespace rnnserve
