// SPDX-License-Identifier: Apache-2.0
// Errors of fixed limits: INVALID_ARGUMENT with reason LIMIT_EXCEEDED, since the same request will not fit later
// either.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "base/field_error.h"

namespace rnnserve {

// A FieldError with reason LIMIT_EXCEEDED that remembers both numbers for google.rpc.ErrorInfo.
absl::Status LimitError(std::string_view field, std::string_view message, LimitExcess excess);

}  // namespace rnnserve
