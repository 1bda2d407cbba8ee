// SPDX-License-Identifier: Apache-2.0
// Durable sessions of many callers while replicas die, stop and wake, the store fails over, and all connections break
// at once: no number is lost or doubled, and what waits stays bounded. A failure names its seed; to see it alone:
//
//   RNNSERVE_SIMULATOR_SEED=123 session_storms_test --gtest_filter=SessionStorms.SmallWorlds
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/sessions/contract/storms/storm.h"

namespace rnnserve::storms {
namespace {

constexpr uint64_t kSeeds = 300;
constexpr uint64_t kSeedsForAFault = 40;
constexpr int kMishaps = 6;

// A few sessions of both kinds, and mishaps at random moments.
std::string RunSmallWorld(Terms terms) {
  terms.mixed = true;
  terms.most_bytes = 5 * static_cast<int64_t>(terms.record_bytes);
  Storm storm(terms);
  storm.RunFor(absl::Seconds(1));  // all sessions are open
  size_t dead = 0;
  for (int mishap = 0; mishap < kMishaps; ++mishap) {
    storm.RunFor(storm.events().Between(absl::ZeroDuration(), absl::Seconds(2)));
    const size_t replica = storm.events().Draw(terms.replicas);
    switch (storm.events().Draw(4)) {
      case 0:
        if (dead++ == 0) storm.Kill(replica);  // two stay
        break;
      case 1:
        storm.Stop(replica, storm.events().Between(absl::ZeroDuration(), absl::Seconds(6)));
        break;
      case 2:
        storm.StoreGoesAway(storm.events().Between(absl::ZeroDuration(), absl::Seconds(7)));
        break;
      default:
        storm.BreakAll();
    }
  }
  storm.RunToEnd();
  if (!storm.wrong().empty()) return storm.wrong();
  const Figures& figures = storm.figures();
  if (figures.most_of_a_queue > terms.most_bytes) return "a queue to the store has grown above its bound";
  // A minute of one caller's tries, at 2 s or less apart, is below a hundred.
  if (figures.tries > figures.answered + figures.replayed + static_cast<int64_t>(100 * terms.callers)) {
    return absl::StrCat(figures.tries, " tries for ", figures.answered, " answers");
  }
  return "";
}

// Sessions that are closed and opened again under their name. Copies that former owners keep expire meanwhile.
Terms OfNames() { return {.operations = 8, .rounds = 6, .idle_timeout = absl::Seconds(2)}; }

void RunSmallWorlds(Terms terms) {
  if (const char* one = std::getenv("RNNSERVE_SIMULATOR_SEED")) {
    terms.seed = std::strtoull(one, nullptr, 10);
    EXPECT_EQ(RunSmallWorld(terms), "");
    return;
  }
  for (terms.seed = 1; terms.seed <= kSeeds; ++terms.seed) {
    ASSERT_EQ(RunSmallWorld(terms), "") << "RNNSERVE_SIMULATOR_SEED=" << terms.seed;
  }
}

TEST(SessionStorms, SmallWorlds) { RunSmallWorlds({}); }
TEST(SessionStorms, SmallWorldsOfNames) { RunSmallWorlds(OfNames()); }

class PlantedFault : public ::testing::TestWithParam<std::pair<FaultName, Terms>> {};

TEST_P(PlantedFault, IsCaught) {
  Terms terms = GetParam().second;
  terms.fault = GetParam().first.fault;
  for (terms.seed = 1; terms.seed <= kSeedsForAFault; ++terms.seed) {
    const std::string wrong = RunSmallWorld(terms);
    if (wrong.empty()) continue;
    RecordProperty("seed", static_cast<int>(terms.seed));
    RecordProperty("wrong", wrong);
    return;
  }
  FAIL() << "unnoticed in " << kSeedsForAFault << " seeds";
}

template <size_t kCount>
std::vector<std::pair<FaultName, Terms>> Planted(const std::array<FaultName, kCount>& faults, const Terms& terms) {
  std::vector<std::pair<FaultName, Terms>> planted;
  for (const FaultName& fault : faults) planted.push_back({fault, terms});
  return planted;
}
std::string FaultNameOf(const ::testing::TestParamInfo<PlantedFault::ParamType>& fault) {
  return fault.param.first.name;
}
INSTANTIATE_TEST_SUITE_P(SessionStorms, PlantedFault, ::testing::ValuesIn(Planted(kFaults, {})), FaultNameOf);
INSTANTIATE_TEST_SUITE_P(SessionStormsOfNames, PlantedFault, ::testing::ValuesIn(Planted(kFaultsOfNames, OfNames())),
                         FaultNameOf);

// 1,000 sessions of ten replicas, ten steps a second each. Callers leave no replica that is slow.
Terms Large(Durability durability) {
  Terms terms = {.replicas = 10, .callers = 1000, .operations = 50, .durability = durability};
  terms.silence = absl::Seconds(30);
  return terms;
}

void Tell(const char* what, const Figures& figures) {
  std::printf(
      "%s: most at once %ld operations under way, %ld requests and %ld bytes to the store; %ld takeovers, %ld tries "
      "for %ld "
      "answers, %ld numbers replayed; longest stall %.0f ms\n",
      what, static_cast<long>(figures.under_way.most), static_cast<long>(figures.queued.most),
      static_cast<long>(figures.queued_bytes.most), static_cast<long>(figures.takes), static_cast<long>(figures.tries),
      static_cast<long>(figures.answered), static_cast<long>(figures.replayed),
      absl::ToDoubleMilliseconds(figures.longest_stall));
}

class Herd : public ::testing::TestWithParam<Durability> {
 protected:
  Terms terms_ = Large(GetParam());
  const int64_t callers_ = static_cast<int64_t>(terms_.callers);

  // Whatever happens: a session has one operation under way and one request to the store, and none was lost or doubled.
  void ExpectBounded(const Figures& figures) {
    EXPECT_EQ(figures.wrong, "");
    EXPECT_LE(figures.under_way.most, callers_);
    EXPECT_LE(figures.queued.most, callers_);
    EXPECT_LE(figures.queued_bytes.most, callers_ * static_cast<int64_t>(terms_.record_bytes));
    EXPECT_EQ(figures.full, 0);
  }
};

TEST_P(Herd, SessionsOfADeadReplicaAreTakenOverOnce) {
  Storm storm(terms_);
  storm.RunFor(absl::Seconds(2));
  storm.Measure();
  storm.Kill(0);
  storm.RunToEnd();
  Tell("a replica of ten dies", storm.figures());
  ExpectBounded(storm.figures());
  EXPECT_EQ(storm.figures().takes, callers_ / 10);
  EXPECT_LT(storm.figures().longest_stall, absl::Seconds(1));
}

TEST_P(Herd, TheStoreFailsOver) {
  Storm storm(terms_);
  storm.RunFor(absl::Seconds(2));
  storm.Measure();
  storm.StoreGoesAway(absl::Seconds(3));
  storm.RunToEnd();
  Tell("the store is away for 3 s", storm.figures());
  ExpectBounded(storm.figures());
  EXPECT_EQ(storm.figures().takes, 0);
  EXPECT_LT(storm.figures().longest_stall, absl::Seconds(GetParam() == Durability::kSync ? 4 : 1));
}

TEST_P(Herd, AllConnectionsBreakAtOnce) {
  Storm storm(terms_);
  storm.RunFor(absl::Seconds(2));
  storm.Measure();
  storm.BreakAll();
  storm.RunToEnd();
  Tell("all connections break, each caller comes back to another replica", storm.figures());
  ExpectBounded(storm.figures());
  EXPECT_GE(storm.figures().takes, callers_ * 9 / 10);
  EXPECT_LE(storm.figures().takes, 2 * callers_);
  EXPECT_LT(storm.figures().longest_stall, absl::Seconds(1));
}

TEST_P(Herd, AReplicaDiesWhileTheStoreFailsOver) {
  Storm storm(terms_);
  storm.RunFor(absl::Seconds(2));
  storm.Measure();
  storm.StoreGoesAway(absl::Seconds(8));  // longer than a request to it waits
  storm.Kill(0);
  storm.RunToEnd();
  Tell("a replica of ten dies while the store is away for 8 s", storm.figures());
  ExpectBounded(storm.figures());
  EXPECT_LT(storm.figures().longest_stall, absl::Seconds(12));
}

INSTANTIATE_TEST_SUITE_P(SessionStorms, Herd, ::testing::Values(Durability::kSync, Durability::kInterval),
                         [](const auto& mode) { return mode.param == Durability::kSync ? "Sync" : "Interval"; });

}  // namespace
}  // namespace rnnserve::storms
