// SPDX-License-Identifier: Apache-2.0
#include "server/batching/workspace_cache.h"

namespace rnnserve {

Workspace& WorkspaceCache::For(const ProgramPtr& program) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->first != program) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return *entries_.front().second;
  }
  if (entries_.size() >= capacity_) entries_.pop_back();
  entries_.emplace_front(program, program->NewWorkspace());
  return *entries_.front().second;
}

}  // namespace rnnserve
