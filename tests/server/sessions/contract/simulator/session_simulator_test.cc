// SPDX-License-Identifier: Apache-2.0
// Many small worlds. A failure names its seed; to see it alone:
//
//   RNNSERVE_SIMULATOR_SEED=123 session_simulator_test --gtest_filter=SessionSimulator.*
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/server/sessions/contract/simulator/world.h"

namespace rnnserve::sim {
namespace {

// Sanitizers make each seed ten times as long.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSeeds = 1'000;
#else
constexpr uint64_t kSeeds = 10'000;
#endif
constexpr uint64_t kSeedsForAFault = 1'000;

std::optional<std::string> RunSeed(uint64_t seed, Fault fault, Counters& counters) {
  World world(seed, fault, &counters);
  return world.Run();
}

TEST(SessionSimulator, EverySeedIsAsTheOracleSays) {
  Counters counters;
  if (const char* one = std::getenv("RNNSERVE_SIMULATOR_SEED")) {
    const std::optional<std::string> wrong = RunSeed(std::strtoull(one, nullptr, 10), Fault::kNone, counters);
    EXPECT_FALSE(wrong.has_value()) << *wrong;
    return;
  }
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::optional<std::string> wrong = RunSeed(seed, Fault::kNone, counters);
    ASSERT_FALSE(wrong.has_value()) << *wrong << "\n  RNNSERVE_SIMULATOR_SEED=" << seed
                                    << " session_simulator_test --gtest_filter=SessionSimulator.EverySeed*";
  }
  for (const char* what : {"connection lost",
                           "connection lost while its numbered operation computes",
                           "connection lost while its unnumbered operation computes",
                           "unnumbered beside another",
                           "unnumbered alone",
                           "number applied before",
                           "number of the computing operation",
                           "number of a queued operation",
                           "next number",
                           "number too high",
                           "engine failure with others queued",
                           "read while an operation computes",
                           "sweep while work is in flight",
                           "session expired",
                           "process stopped",
                           "keys probed",
                           "honest client done",
                           "operation after the end",
                           "answer OK",
                           "answer OK from the window",
                           "answer ABORTED",
                           "answer OUT_OF_RANGE",
                           "answer ALREADY_EXISTS",
                           "answer DEADLINE_EXCEEDED",
                           "answer CANCELLED",
                           "answer INTERNAL",
                           "answer NOT_FOUND",
                           "answer FAILED_PRECONDITION",
                           "answer RESOURCE_EXHAUSTED",
                           "answer INVALID_ARGUMENT",
                           "aborted: OLDER_OWNER",
                           "aborted: FENCED",
                           "aborted: NUMBER_REUSED",
                           "aborted: PREVIOUS_FAILED",
                           "refused behind another",
                           "attached by name",
                           "attach that disagrees",
                           "attach to a session that is no more"}) {
    EXPECT_GE(counters[what], static_cast<int64_t>(kSeeds / 100)) << what;
  }
  for (const auto& [what, count] : counters) RecordProperty(absl::StrCat(what), absl::StrCat(count));
}

class PlantedFault : public ::testing::TestWithParam<FaultName> {};

TEST_P(PlantedFault, IsCaught) {
  Counters counters;
  for (uint64_t seed = 1; seed <= kSeedsForAFault; ++seed) {
    if (RunSeed(seed, GetParam().fault, counters)) {
      RecordProperty("seed", static_cast<int>(seed));
      return;
    }
  }
  FAIL() << "nobody noticed in " << kSeedsForAFault << " seeds";
}

INSTANTIATE_TEST_SUITE_P(SessionSimulator, PlantedFault, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace rnnserve::sim
