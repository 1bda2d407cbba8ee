// SPDX-License-Identifier: Apache-2.0
// The scratch memory of one thread, for the programs it ran last. A program whose cache entry has gone elsewhere lives
// on here until others push it out; the bound is small for that reason. Not thread-safe: one for each worker.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "engine/engine.h"

namespace rnnserve {

class WorkspaceCache {
 public:
  explicit WorkspaceCache(size_t capacity) : capacity_(capacity) {}
  // Valid until the next call.
  Workspace& For(const ProgramPtr& program);

 private:
  const size_t capacity_;
  std::list<std::pair<ProgramPtr, std::unique_ptr<Workspace>>> entries_;  // the most recent first
};

}  // namespace rnnserve
