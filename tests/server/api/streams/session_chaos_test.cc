// SPDX-License-Identifier: Apache-2.0
// Exactly once, over real streams: see chaos.h. Each seed is a server of its own with more than a hundred sessions.
//   RNNSERVE_SEEDS=500 session_chaos_test             a campaign
//   RNNSERVE_FIRST_SEED=17 RNNSERVE_SEEDS=1 session_chaos_test     again what a failure names
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/server/api/streams/chaos.h"

#ifdef __SANITIZE_THREAD__
// gRPC is not instrumented, and its own locks are futexes that ThreadSanitizer does not see: reports with a frame of
// its libraries are about it alone. What its completion queues promise, frontend/rpc/completion.h says.
extern "C" const char* __tsan_default_suppressions() {
  return "race:libgrpc.so\nrace:libgrpc++.so\nrace:libgpr.so\nrace:libabsl_\nmutex:libgrpc.so\nmutex:libabsl_\n";
}
#endif

namespace rnnserve {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kSeeds = 2;
constexpr Chaos::Size kSize = {.sessions = 16, .rounds = 2, .sessions_a_round = 12};
#elif defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSeeds = 2;
constexpr Chaos::Size kSize = {.sessions = 48, .rounds = 4, .sessions_a_round = 24};
#else
constexpr uint64_t kSeeds = 10;
constexpr Chaos::Size kSize = {};
#endif

uint64_t NumberIn(const char* variable, uint64_t otherwise) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

// What has to happen for the test to mean something.
constexpr const char* kMustHappen[] = {
    "chunks applied",
    "resets applied",
    "states set",
    "rows selected",
    "rewinds applied",
    "sessions closed",
    "checkpoints",
    "forks",
    "states seen in a stream",
    "sent by Stream",
    "sent by Apply",
    "cut over Infer",
    "messages of several operations",
    "sent more than once",
    "sent in another order",
    "two owners",
    "an older owner refused",
    "other content under the same number",
    "repetitions long after",
    "joined in flight",
    "cancelled before compute",
    "cancelled during compute",
    "cancelled after compute",
    "unnumbered, cancelled before compute",
    "unnumbered, cancelled during compute",
    "timed out during compute",
    "without a number",
    "streams cancelled",
    "wires cut",
    "wires half-open",
    "replies lost",
    "resent, and had been applied",
    "resent, and was applied",
    "opened with a state",
    "slices shared by sequences",
};

TEST(SessionChaos, NothingIsLostOrDoubled) {
  const uint64_t first = NumberIn("RNNSERVE_FIRST_SEED", 1), seeds = NumberIn("RNNSERVE_SEEDS", kSeeds);
  Happenings all;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    if (seeds > 8) std::fprintf(stderr, "seed %llu\r", static_cast<unsigned long long>(seed));  // if one hangs
    Chaos chaos(seed, kSize);
    const std::string wrong = chaos.Run();
    ASSERT_EQ(wrong, "") << "again: RNNSERVE_FIRST_SEED=" << seed << " RNNSERVE_SEEDS=1 session_chaos_test";
    for (const auto& [what, times] : chaos.happenings()) all[what] += times;
  }
  for (const auto& [what, times] : all) std::printf("%8lld  %s\n", static_cast<long long>(times), what.c_str());
  if (seeds < 8) return;
  for (const char* what : kMustHappen) EXPECT_GT(all[what], 0) << what;
}

}  // namespace
}  // namespace rnnserve
