// SPDX-License-Identifier: Apache-2.0
// The scratch memory of one thread, for the programs it ran last. It keeps no program alive: weights that have
// been evicted or unloaded are freed although this thread ran them. Not thread-safe: one for each worker.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "engine/engine.h"

namespace rnnserve {

class WorkspaceCache {
 public:
  explicit WorkspaceCache(size_t capacity) : capacity_(capacity) {}
  // Valid until the next call.
  Workspace& For(const ProgramPtr& program);
  // Frees the scratch of destroyed programs.
  void ForgetGone();
  void Clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::weak_ptr<const Program> program;
    std::unique_ptr<Workspace> workspace;
  };

  const size_t capacity_;
  std::list<Entry> entries_;  // the most recent first
};

}  // namespace rnnserve
