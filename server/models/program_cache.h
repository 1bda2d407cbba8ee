// SPDX-License-Identifier: Apache-2.0
// Packed weights, shared between equal cells, bounded in bytes, least recently used first. A running call
// keeps its program alive by its ProgramPtr; programs without users are evicted first. Thread-safe; two
// threads that ask for the same program at once compile it once. A failure is not remembered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

class ProgramCache {
 public:
  // A program counts against the bound with its packed bytes, the bytes of its cell (which it may keep alive) and this.
  static constexpr int64_t kBytesPerProgram = 4096;

  // `metrics`: where the time of each compilation that succeeds is counted, null for nowhere; outlive the cache.
  explicit ProgramCache(int64_t max_bytes, Metrics* metrics = nullptr);
  ~ProgramCache();

  // The engine's program for the cell, compiled if it is not cached. Where the engine has no memory left for it
  // (RESOURCE_EXHAUSTED), this evicts the engine's programs without users, once.
  absl::StatusOr<ProgramPtr> Get(const Engine& engine, const CellPtr& cell, const EngineOptions& options);

  // Whether Get would return at once.
  bool Holds(const Engine& engine, const Cell& cell, const EngineOptions& options) const;

  // Releases a program without users.
  void Forget(const Engine& engine, const Cell& cell, const EngineOptions& options);

  // Packed bytes alive now, all programs together, of one cell, and of each engine. Programs that were dropped but
  // still run count.
  int64_t bytes() const;
  int64_t bytes_of(const Cell& cell) const;
  std::map<std::string, int64_t> bytes_by_engine() const;

 private:
  struct Impl;
  // Get where there is none. With `lock`, which it releases.
  absl::StatusOr<ProgramPtr> Pack(MutexLock& lock, const Engine& engine, const CellPtr& cell,
                                  const EngineOptions& options) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  bool MakeRoom(const Engine& engine);

  std::unique_ptr<Impl> impl_;
};

}  // namespace rnnserve
