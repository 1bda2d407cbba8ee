// SPDX-License-Identifier: Apache-2.0
// Digests of what callers say: XXH3, 128 bits, over every part with its length. They tell a caller's own requests
// apart; a caller who makes two of them equal gets the reply to the first and fools nobody else.
#pragma once

#include "server/core/session_calls.h"
#include "server/sessions/digest.h"

namespace rnnserve {

// Operation, inputs, lengths, outputs; not timeout and priority, which may change from try to try.
Digest DigestOf(const OperationKind& operation);
// All but request_id.
Digest DigestOf(const OpenCall& call);
Digest DigestOf(const ForkCall& call);

}  // namespace rnnserve
