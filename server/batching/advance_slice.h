// SPDX-License-Identifier: Apache-2.0
// Runs a slice's program on this thread.
#pragma once

#include "absl/status/status.h"
#include "server/batching/job.h"
#include "server/batching/workspace_cache.h"

namespace rnnserve {

// The engine's status. Where memory for the whole slice is lacking, other programs' scratch goes and its parts run one
// after the other: only those fail (Slice::Part::ran) for which there is not enough even so.
absl::Status AdvanceSlice(Slice& slice, WorkspaceCache& workspaces);

}  // namespace rnnserve
