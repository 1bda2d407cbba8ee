// SPDX-License-Identifier: Apache-2.0
#include "server/process_memory.h"

#ifdef RNNSERVE_HAS_MIMALLOC
#include <mimalloc.h>
#endif

#include "absl/strings/str_cat.h"
#include "server/telemetry/log.h"
#include "server/telemetry/release_caches.h"

namespace rnnserve {
namespace {

#ifdef RNNSERVE_HAS_MIMALLOC
// With less, what the allocator keeps is too much of it.
constexpr int64_t kLittle = 512 << 20;

// Small calls take a sixth longer if nothing that is freed is kept for a while.
void KeepFreed(bool keep) {
#if MI_MALLOC_VERSION >= 210  // Debian 13
  static const long usual = mi_option_get(mi_option_purge_delay);
  mi_option_set(mi_option_purge_delay, keep ? usual : 0);
#else
  static const long usual = mi_option_get(mi_option_decommit_delay);
  static const long usual_of_segments = mi_option_get(mi_option_segment_decommit_delay);
  mi_option_set(mi_option_decommit_delay, keep ? usual : 0);
  mi_option_set(mi_option_segment_decommit_delay, keep ? usual_of_segments : 0);
#endif
}

void Relieve(bool in_need, int64_t limit) {
  KeepFreed(!in_need && limit >= kLittle);
  if (!in_need) return;
  AskToReleaseCaches();
  ReleaseCachesIfAsked();
}
#else
void Relieve(bool, int64_t) {}
#endif

}  // namespace

std::unique_ptr<MemoryWatch> WatchMemory(int64_t limit, Metrics& metrics) {
  if (limit <= 0) return nullptr;
  LogInfo(absl::StrCat("memory limit ", limit >> 20, " MiB"));
  metrics.GaugeFunction("rnnserve_memory_limit_bytes", "Memory that the process may take.",
                        [limit] { return static_cast<double>(limit); });
#ifdef RNNSERVE_HAS_MIMALLOC
  if (limit < kLittle) KeepFreed(false);
  release_caches.store([] { mi_collect(/*force=*/true); });
#endif
  return std::make_unique<MemoryWatch>(limit, AnonymousBytes, [limit](bool in_need) { Relieve(in_need, limit); });
}

}  // namespace rnnserve
