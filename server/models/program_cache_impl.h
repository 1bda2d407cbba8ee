// SPDX-License-Identifier: Apache-2.0
// What the parts of ProgramCache share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/models/program_cache.h"

namespace rnnserve {

struct ProgramCache::Impl {
  // The cell key comes first: all programs of a cell are neighbours. Looked up as a KeyView, which copies no text.
  // It is a digest, and its first bytes stand beside it: among a thousand programs the text of one is looked at.
  struct KeyView {
    uint64_t begin;
    std::string_view cell;
    std::string_view engine;
    EngineOptions options;
  };

  struct Key {
    uint64_t begin;
    std::string cell;
    std::string engine;
    EngineOptions options;

    explicit Key(const KeyView& key) : begin(key.begin), cell(key.cell), engine(key.engine), options(key.options) {}
    // NOLINTNEXTLINE(google-explicit-constructor): it is one
    operator KeyView() const { return {begin, cell, engine, options}; }
  };

  struct KeyOrder {
    using is_transparent = void;
    static auto Fields(const KeyView& key) {
      const EngineOptions& options = key.options;
      return std::tuple(key.begin, key.cell, key.engine, options.allow_reduced_precision, options.deterministic,
                        options.weights);
    }
    bool operator()(const KeyView& a, const KeyView& b) const { return Fields(a) < Fields(b); }
  };

  static KeyView KeyOf(const Engine& engine, const Cell& cell, const EngineOptions& options) {
    return KeyOf(engine.name(), cell, options);
  }
  static KeyView KeyOf(std::string_view engine, const Cell& cell, const EngineOptions& options) {
    uint64_t begin = 0;
    std::memcpy(&begin, cell.key().data(), std::min(sizeof begin, cell.key().size()));
    return {begin, cell.key(), engine, options};
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
  std::vector<ProgramPtr> DropIdle(std::string_view engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Each sweep pays for itself: the number of entries has doubled since the last one.
  void ForgetDead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

}  // namespace rnnserve
