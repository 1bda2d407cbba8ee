// SPDX-License-Identifier: Apache-2.0
#include "server/models/program_cache.h"

#include <algorithm>
#include <exception>
#include <list>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/steady_now.h"

namespace rnnserve {
namespace {

// The cell key comes first: all programs of a cell are neighbours. Looked up as a KeyView, which copies no text.
struct KeyView {
  std::string_view cell;
  std::string_view engine;
  EngineOptions options;
};

struct Key {
  std::string cell;
  std::string engine;
  EngineOptions options;

  explicit Key(const KeyView& key) : cell(key.cell), engine(key.engine), options(key.options) {}
  operator KeyView() const { return {cell, engine, options}; }  // NOLINT(google-explicit-constructor): it is one
};

struct KeyOrder {
  using is_transparent = void;
  static auto Fields(const KeyView& key) {
    const EngineOptions& options = key.options;
    return std::tuple(key.cell, key.engine, options.allow_reduced_precision, options.deterministic, options.weights);
  }
  bool operator()(const KeyView& a, const KeyView& b) const { return Fields(a) < Fields(b); }
};

KeyView KeyOf(const Engine& engine, const Cell& cell, const EngineOptions& options) {
  return {cell.key(), engine.name(), options};
}

// A compilation under way; threads that ask for the same program wait for it.
struct Flight {
  CondVar landed;
  std::optional<absl::StatusOr<ProgramPtr>> result;
};

struct Entry {
  ProgramPtr program;                 // null once dropped
  std::weak_ptr<const Program> weak;  // finds a dropped program that is still in use
  int64_t packed = 0;
  int64_t charged = 0;
  std::list<const Key*>::iterator place;  // in the order of use, if not dropped

  bool alive() const { return program != nullptr || !weak.expired(); }
};

using Entries = std::map<Key, Entry, KeyOrder>;

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

struct ProgramCache::Impl {
  Impl(int64_t bytes, Metrics* metrics) : max_bytes(bytes) {
    if (metrics == nullptr) return;
    packing = &metrics->Durations("rnnserve_packing_duration_seconds", "Time of an engine to pack a cell's weights.",
                                  {"engine"});
  }

  const int64_t max_bytes;
  HistogramFamily* packing = nullptr;
  mutable Mutex mutex;
  Entries entries ABSL_GUARDED_BY(mutex);
  std::list<const Key*> by_use ABSL_GUARDED_BY(mutex);  // least recent first; not the dropped ones
  std::map<Key, std::shared_ptr<Flight>, KeyOrder> flights ABSL_GUARDED_BY(mutex);
  int64_t charged ABSL_GUARDED_BY(mutex) = 0;     // of what is not dropped
  size_t next_sweep ABSL_GUARDED_BY(mutex) = 64;  // entries at which the dead ones are looked for

  ProgramPtr Find(const KeyView& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto found = entries.find(key);
    if (found == entries.end()) return nullptr;
    Entry& entry = found->second;
    if (entry.program != nullptr) {
      by_use.splice(by_use.end(), by_use, entry.place);
      return entry.program;
    }
    ProgramPtr program = entry.weak.lock();
    if (program != nullptr) Keep(found, program);
    return program;
  }

  void Keep(Entries::iterator at, ProgramPtr program) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    at->second.program = std::move(program);
    at->second.place = by_use.insert(by_use.end(), &at->first);
    charged += at->second.charged;
  }

  ProgramPtr Drop(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    by_use.erase(entry.place);
    charged -= entry.charged;
    return std::exchange(entry.program, nullptr);
  }

  // Programs to be destroyed by the caller, without the mutex.
  std::vector<ProgramPtr> Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::vector<ProgramPtr> dropped;
    // Those that run would stay in memory anyway, so idle ones go first.
    for (const bool idle_only : {true, false}) {
      for (auto at = by_use.begin(); at != by_use.end() && charged > max_bytes;) {
        Entry& entry = entries.find(**at++)->second;
        if (!idle_only || entry.program.use_count() == 1) dropped.push_back(Drop(entry));
      }
    }
    return dropped;
  }

  // Programs of one engine without users, to be destroyed by the caller, without the mutex.
  std::vector<ProgramPtr> DropIdle(std::string_view engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::vector<ProgramPtr> dropped;
    for (auto at = by_use.begin(); at != by_use.end();) {
      const auto found = entries.find(**at++);
      if (found->first.engine == engine && found->second.program.use_count() == 1)
        dropped.push_back(Drop(found->second));
    }
    return dropped;
  }

  // Each sweep pays for itself: the number of entries has doubled since the last one.
  void ForgetDead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (entries.size() < next_sweep) return;
    std::erase_if(entries, [](const auto& entry) { return !entry.second.alive(); });
    next_sweep = std::max<size_t>(64, 2 * entries.size());
  }
};

ProgramCache::ProgramCache(int64_t max_bytes, Metrics* metrics) : impl_(std::make_unique<Impl>(max_bytes, metrics)) {}
ProgramCache::~ProgramCache() = default;

bool ProgramCache::MakeRoom(const Engine& engine) {
  std::vector<ProgramPtr> dropped;
  {
    const MutexLock lock(impl_->mutex);
    dropped = impl_->DropIdle(engine.name());
  }
  return !dropped.empty();
}

absl::StatusOr<ProgramPtr> ProgramCache::Get(const Engine& engine, const CellPtr& cell, const EngineOptions& options) {
  const KeyView key = KeyOf(engine, *cell, options);
  std::shared_ptr<Flight> flight;
  std::vector<ProgramPtr> dropped;  // destroyed after the lock is released
  {
    MutexLock lock(impl_->mutex);
    if (ProgramPtr program = impl_->Find(key)) {
      dropped = impl_->Evict();
      return program;
    }
    if (const auto other = impl_->flights.find(key); other != impl_->flights.end()) {
      const std::shared_ptr<Flight> awaited = other->second;
      awaited->landed.wait(lock, [&] { return awaited->result.has_value(); });
      return *awaited->result;
    }
    flight = impl_->flights.emplace(Key(key), std::make_shared<Flight>()).first->second;
  }

  absl::StatusOr<ProgramPtr> program = Compile(engine, cell, options, impl_->packing);
  if (absl::IsResourceExhausted(program.status()) && MakeRoom(engine)) {
    program = Compile(engine, cell, options, impl_->packing);
  }
  const int64_t packed = program.ok() ? (*program)->packed_bytes() : 0;
  const MutexLock lock(impl_->mutex);
  if (program.ok()) {
    impl_->ForgetDead();
    const Entry entry{.program = nullptr,
                      .weak = *program,
                      .packed = packed,
                      .charged = packed + cell->weight_bytes() + kBytesPerProgram,
                      .place = {}};
    impl_->Keep(impl_->entries.insert_or_assign(Key(key), entry).first, *program);
    dropped = impl_->Evict();
  }
  impl_->flights.erase(impl_->flights.find(key));
  flight->result = program;
  flight->landed.notify_all();
  return program;
}

bool ProgramCache::Holds(const Engine& engine, const Cell& cell, const EngineOptions& options) const {
  const KeyView key = KeyOf(engine, cell, options);
  const MutexLock lock(impl_->mutex);
  const auto found = impl_->entries.find(key);
  return found != impl_->entries.end() && found->second.alive();
}

void ProgramCache::Forget(const Engine& engine, const Cell& cell, const EngineOptions& options) {
  const KeyView key = KeyOf(engine, cell, options);
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
  for (auto at = impl_->entries.lower_bound(KeyView{cell.key(), "", {}});
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
