// SPDX-License-Identifier: Apache-2.0
#include "server/batching/advance_slice.h"

#include <new>
#include <span>

#include "base/out_of_memory.h"

namespace rnnserve {

absl::Status AdvanceSlice(Slice& slice, WorkspaceCache& workspaces) {
  try {
    Workspace& workspace = workspaces.For(slice.program);
    workspace.is_alone = slice.is_alone;
    return slice.program->Advance(slice.rows, workspace);
  } catch (const std::bad_alloc&) {
    workspaces.Clear();
  }
  slice.ran_in_parts = true;
  std::span<const SequenceSlice> rest = slice.rows;
  for (Slice::Part& part : slice.parts) {
    try {
      part.ran = slice.program->Advance(rest.first(part.rows), workspaces.For(slice.program));
    } catch (const std::bad_alloc&) {
      workspaces.Clear();
      part.ran = OutOfMemory();
    }
    rest = rest.subspan(part.rows);
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
