// SPDX-License-Identifier: Apache-2.0
// Runs a slice's program on this thread.
#pragma once

#include "absl/status/status.h"
#include "server/batching/job.h"
#include "server/batching/workspace_cache.h"

namespace rnnserve {

// The engine's status. Where memory for the whole slice is lacking, this frees other programs' scratch and runs the
// parts one after the other: only parts that still lack memory fail (Slice::Part::ran).
absl::Status AdvanceSlice(Slice& slice, WorkspaceCache& workspaces);

}  // namespace rnnserve
