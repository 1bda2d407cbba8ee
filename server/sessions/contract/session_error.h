// SPDX-License-Identifier: Apache-2.0
// Errors of sessions: a code from the table of the API, a machine-readable reason, and the session's numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/field_error.h"
#include "server/sessions/contract/numbers.h"

namespace rnnserve {

// `reason` as in google.rpc.ErrorInfo, e.g. "NUMBER_REUSED".
absl::Status SessionError(absl::StatusCode code, std::string_view reason, std::string_view message);

// The same error with the numbers of its session, for callers that go on from there.
absl::Status WithNumbers(absl::Status status, const Numbers& numbers);
std::optional<Numbers> NumbersOf(const absl::Status& status);

// A limit of one tenant, not of the server (rejection.h).
absl::Status QuotaError(std::string_view subject, std::string_view message);

// Operations that a session refuses: another owner's, a number's other content, an older owner epoch, one behind
// operation `number`, which was refused for `why`.
absl::Status OlderOwner(std::string_view what);
absl::Status NumberReused(uint64_t number);
absl::Status Fenced(uint64_t carried, uint64_t newest);
absl::Status Behind(uint64_t number, const absl::Status& why);

// More than was agreed at Open: the session's own limit, not the server's.
absl::Status TooManyInFlight(std::string_view message);

// An operation exceeds a fixed limit: the same one will not fit later either.
absl::Status TooLarge(std::string_view message, LimitExcess excess);

// The session is not in this process; the store may have a record of it. Not for callers.
absl::Status SessionElsewhere();
bool IsElsewhere(const absl::Status& status);

// There is a live session of that name.
absl::Status NameTaken();

// The same code, message and reason for a key that never was, one of another tenant, and one that is no key at all.
absl::Status UnknownSession();

// Why a session is no more.
// kMoved: another process has taken it over.
enum class EndCause { kUnknown, kClosed, kExpired, kMoved };
// The key was valid, but the session is not live any more.
absl::Status EndedSession(EndCause cause);
// "closed", "expired" or "unknown".
std::optional<std::string> EndCauseOf(const absl::Status& status);

}  // namespace rnnserve
