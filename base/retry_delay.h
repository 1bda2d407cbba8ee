// SPDX-License-Identifier: Apache-2.0
// How long a refused caller should wait before it retries, attached to the refusal; a front-end sends it as
// google.rpc.RetryInfo, and none for an infinite one.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rnnserve {

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace rnnserve
