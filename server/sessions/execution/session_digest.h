// SPDX-License-Identifier: Apache-2.0
// Digests of what callers say: XXH3, 128 bits, over every part with its length. They tell a caller's own requests
// apart; a caller that makes two of them equal gets the reply to the first and misleads no other caller.
#pragma once

#include "server/sessions/contract/digest.h"
#include "server/sessions/execution/session_calls.h"

namespace rnnserve {

// The digest of a well-formed operation: its kind, its tensors by value and not by their order, lengths and outputs
// once defaults are filled in. Not timeout, priority and owner epoch, nor what SetState checks (fingerprint, force):
// these may change from try to try. `plan` of a chunk; else null.
Digest DigestOf(const OperationKind& operation, const RunPlan* plan);
// The digest of a malformed operation, which equals no other operation's.
Digest DigestOfFaulty(const OperationKind& operation);
// All but request_id.
Digest DigestOf(const OpenCall& call);
Digest DigestOf(const ForkCall& call);

}  // namespace rnnserve
