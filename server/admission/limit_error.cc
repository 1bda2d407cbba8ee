// SPDX-License-Identifier: Apache-2.0
#include "server/admission/limit_error.h"

#include <utility>

#include "base/rejection.h"

namespace rnnserve {

absl::Status LimitError(std::string_view field, std::string_view message, LimitExcess excess) {
  absl::Status status = WithReason(FieldError(field, message), "LIMIT_EXCEEDED");
  status = WithRejection(std::move(status), Rejection::kTooLarge);
  return WithLimit(std::move(status), excess);
}

}  // namespace rnnserve
