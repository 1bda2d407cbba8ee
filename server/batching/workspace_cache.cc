// SPDX-License-Identifier: Apache-2.0
#include "server/batching/workspace_cache.h"

#include <iterator>

namespace rnnserve {

Workspace& WorkspaceCache::For(const ProgramPtr& program) {
  const auto is_of_program = [&](const Entry& entry) {
    return !entry.program.owner_before(program) && !program.owner_before(entry.program);
  };
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (is_of_program(*entry)) {
      entries_.splice(entries_.begin(), entries_, entry);
      return *entries_.front().workspace;
    }
    entry = entry->program.expired() ? entries_.erase(entry) : std::next(entry);
  }
  if (entries_.size() >= capacity_) entries_.pop_back();
  entries_.push_front({program, program->NewWorkspace()});
  return *entries_.front().workspace;
}

void WorkspaceCache::ForgetGone() {
  entries_.remove_if([](const Entry& entry) { return entry.program.expired(); });
}

}  // namespace rnnserve
