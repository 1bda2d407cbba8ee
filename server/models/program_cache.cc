// SPDX-License-Identifier: Apache-2.0
// Programs that are there; program_cache_pack.cc makes those that are not.
#include "server/models/program_cache_impl.h"

namespace rnnserve {

ProgramCache::ProgramCache(int64_t max_bytes, Metrics* metrics) : impl_(std::make_unique<Impl>(max_bytes, metrics)) {}
ProgramCache::~ProgramCache() = default;

absl::StatusOr<ProgramPtr> ProgramCache::Get(const Engine& engine, const CellPtr& cell, const EngineOptions& options) {
  std::vector<ProgramPtr> dropped;  // destroyed after the lock is released
  MutexLock lock(impl_->mutex);
  if (ProgramPtr program = impl_->Find(Impl::KeyOf(engine, *cell, options))) {
    dropped = impl_->Evict();
    return program;
  }
  return Pack(lock, engine, cell, options);
}

bool ProgramCache::Holds(const Engine& engine, const Cell& cell, const EngineOptions& options) const {
  const Impl::KeyView key = Impl::KeyOf(engine, cell, options);
  const MutexLock lock(impl_->mutex);
  const auto found = impl_->entries.find(key);
  return found != impl_->entries.end() && found->second.alive();
}

}  // namespace rnnserve
