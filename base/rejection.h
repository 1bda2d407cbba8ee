// SPDX-License-Identifier: Apache-2.0
// Why requests are refused: overload or bad input.
//
//   return Overloaded(Rejection::kQueueFull, "the queue is full: 3 of 3 sequences are waiting; send it again later");
//
// The reason travels with the status; a front-end counts it once, where it sends the answer.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rnnserve {

enum class Rejection { kQueueFull, kDeadline, kQuota, kMemory, kDraining, kTooLarge, kInvalid };

// As in rnnserve_rejected_total{reason}.
inline constexpr std::array<std::string_view, 7> kRejectionNames = {"queue_full", "deadline",  "quota",  "memory",
                                                                    "draining",   "too_large", "invalid"};

// RESOURCE_EXHAUSTED for one of the first four reasons.
absl::Status Overloaded(Rejection why, std::string_view message);
// RESOURCE_EXHAUSTED for a limit of one tenant, not of the server; `subject` as in google.rpc.QuotaFailure.
absl::Status OverQuota(std::string_view subject, std::string_view message);
std::optional<std::string> QuotaSubjectOf(const absl::Status& status);
// Any status, with its reason.
absl::Status WithRejection(absl::Status status, Rejection why);

// The reason that the status carries, else the one its code has; nothing for errors that refuse nothing: INTERNAL,
// CANCELLED and the like.
std::optional<Rejection> RejectionOf(const absl::Status& status);

}  // namespace rnnserve
