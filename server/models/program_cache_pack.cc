// SPDX-License-Identifier: Apache-2.0
// ProgramCache: programs that are packed anew, and how many bytes all of them have.
#include <algorithm>
#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/steady_now.h"
#include "server/models/program_cache_impl.h"

namespace rnnserve {
namespace {

// Engines do not throw by contract, but their libraries may; a throw must not leave other calls waiting.
absl::StatusOr<ProgramPtr> Compile(const Engine& engine, const CellPtr& cell, const EngineOptions& options,
                                   HistogramFamily* packing) {
  try {
    const absl::Time begun = SteadyNow();
    absl::StatusOr<ProgramPtr> program = engine.Compile(cell, options);
    if (program.ok() && *program == nullptr) {
      return absl::InternalError(absl::StrCat("engine ", std::string(engine.name()), " compiled no program"));
    }
    if (program.ok() && packing != nullptr) packing->With({std::string(engine.name())})->Observe(SteadyNow() - begun);
    return program;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory left to pack the weights; try again later");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("engine ", std::string(engine.name()), ": ", error.what()));
  }
}

}  // namespace

std::vector<ProgramPtr> ProgramCache::Impl::DropIdle(std::string_view engine) {
  std::vector<ProgramPtr> dropped;
  for (auto at = by_use.begin(); at != by_use.end();) {
    const auto found = entries.find(**at++);
    if (found->first.engine == engine && found->second.program.use_count() == 1) dropped.push_back(Drop(found->second));
  }
  return dropped;
}

void ProgramCache::Impl::ForgetDead() {
  if (entries.size() < next_sweep) return;
  std::erase_if(entries, [](const auto& entry) { return !entry.second.alive(); });
  next_sweep = std::max<size_t>(64, 2 * entries.size());
}

bool ProgramCache::MakeRoom(const Engine& engine) {
  const auto drop = [&] {
    const MutexLock lock(impl_->mutex);
    return impl_->DropIdle(engine.name());
  };
  return !drop().empty();
}

absl::StatusOr<ProgramPtr> ProgramCache::Pack(MutexLock& lock, const Engine& engine, const CellPtr& cell,
                                              const EngineOptions& options) {
  const Impl::KeyView key = Impl::KeyOf(engine, *cell, options);
  if (const auto other = impl_->flights.find(key); other != impl_->flights.end()) {
    const std::shared_ptr<Impl::Flight> awaited = other->second;
    awaited->landed.wait(lock, [&] { return awaited->result.has_value(); });
    return *awaited->result;
  }
  const auto flight = impl_->flights.emplace(Impl::Key(key), std::make_shared<Impl::Flight>()).first->second;
  lock.unlock();

  absl::StatusOr<ProgramPtr> program = Compile(engine, cell, options, impl_->packing);
  if (absl::IsResourceExhausted(program.status()) && MakeRoom(engine)) {
    program = Compile(engine, cell, options, impl_->packing);
  }
  const int64_t packed = program.ok() ? (*program)->packed_bytes() : 0;
  std::vector<ProgramPtr> dropped;
  lock.lock();
  if (program.ok()) {
    impl_->ForgetDead();
    const Impl::Entry entry{.program = nullptr,
                            .weak = *program,
                            .packed = packed,
                            .charged = packed + cell->weight_bytes() + kBytesPerProgram,
                            .place = {}};
    impl_->Keep(impl_->entries.insert_or_assign(Impl::Key(key), entry).first, *program);
    dropped = impl_->Evict();
  }
  impl_->flights.erase(impl_->flights.find(key));
  flight->result = program;
  flight->landed.notify_all();
  lock.unlock();  // before the dropped ones are destroyed
  return program;
}

void ProgramCache::Forget(const Engine& engine, const Cell& cell, const EngineOptions& options) {
  const Impl::KeyView key = Impl::KeyOf(engine, cell, options);
  ProgramPtr dropped;  // destroyed after the lock is released
  const MutexLock lock(impl_->mutex);
  const auto found = impl_->entries.find(key);
  if (found == impl_->entries.end() || found->second.program.use_count() != 1) return;
  dropped = impl_->Drop(found->second);
  impl_->entries.erase(found);
}

int64_t ProgramCache::bytes() const {
  const MutexLock lock(impl_->mutex);
  int64_t bytes = 0;
  for (const auto& [key, entry] : impl_->entries) bytes += entry.alive() ? entry.packed : 0;
  return bytes;
}

int64_t ProgramCache::bytes_of(const Cell& cell) const {
  const MutexLock lock(impl_->mutex);
  int64_t bytes = 0;
  for (auto at = impl_->entries.lower_bound(Impl::KeyOf("", cell, {}));
       at != impl_->entries.end() && at->first.cell == cell.key(); ++at) {
    bytes += at->second.alive() ? at->second.packed : 0;
  }
  return bytes;
}

std::map<std::string, int64_t> ProgramCache::bytes_by_engine() const {
  const MutexLock lock(impl_->mutex);
  std::map<std::string, int64_t> bytes;
  for (const auto& [key, entry] : impl_->entries) bytes[key.engine] += entry.alive() ? entry.packed : 0;
  return bytes;
}

}  // namespace rnnserve
