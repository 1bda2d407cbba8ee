// SPDX-License-Identifier: Apache-2.0
// Errors that name the field of the request they are about. The path uses the names of rnnserve.v1, e.g.
// `inputs[X].shape`, `operator.attributes[clip]`, `outputs[2]`; a front-end puts it into google.rpc.BadRequest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rnnserve {

// INVALID_ARGUMENT with a field path. `message` says what was expected, what came and how to mend it.
absl::Status FieldError(std::string_view field, std::string_view message);

// Any other error about a field.
absl::Status WithField(absl::Status status, std::string_view field);

// The path of such an error.
std::optional<std::string> FieldOf(const absl::Status& status);

// The same error, its field seen from a message around it: `inputs[X]` becomes `operation.chunk.inputs[X]`. Errors
// without a field stay as they are.
absl::Status WithFieldPrefix(absl::Status status, std::string_view prefix);

// A machine-readable reason (google.rpc.ErrorInfo) attached to any error, e.g. "MODEL_UNKNOWN".
absl::Status WithReason(absl::Status status, std::string_view reason);
std::optional<std::string> ReasonOf(const absl::Status& status);

// A fixed limit and what came, of errors that say so.
struct LimitExcess {
  int64_t limit = 0;
  int64_t value = 0;
};
absl::Status WithLimit(absl::Status status, LimitExcess excess);
std::optional<LimitExcess> LimitOf(const absl::Status& status);

}  // namespace rnnserve
