// SPDX-License-Identifier: Apache-2.0
#include "server/routing/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/routing/routing_thread.h"
#include "tests/server/core/timed_engine.h"

namespace rnnserve {
namespace {

using absl::Microseconds;
using testing::HasSubstr;

CellPtr CellOf(int64_t units, float weight = 0.5f) {
  CellSpec spec;
  spec.kind = CellKind::kRnn;
  spec.input_size = 1;
  spec.hidden_size = units;
  CellWeights<float> weights;
  weights.w.assign(static_cast<size_t>(units), weight);
  weights.r.assign(static_cast<size_t>(units * units), weight);
  weights.wb = weights.rb = std::vector<float>(static_cast<size_t>(units), 0.0f);
  return std::make_shared<Cell>(spec, std::move(weights));
}

class RouterTest : public testing::Test {
 protected:
  // Few: a cheap row, a dear step. Many: the other way round; they meet between 8 and 16 rows.
  FakeClock clock_;
  TimedEngine few_{"few", &clock_,
                   [](const CellSpec&, int64_t rows, int64_t steps) { return steps * Microseconds(10 + 10 * rows); }};
  TimedEngine many_{"many", &clock_,
                    [](const CellSpec&, int64_t rows, int64_t steps) { return steps * Microseconds(100 + rows); }};
  TimedEngine slow_{"reference", &clock_, [](const CellSpec&, int64_t, int64_t) { return absl::ZeroDuration(); }};
  ProgramCache programs_{1 << 20};
  std::vector<CellPtr> cells_ = {CellOf(1)};

  std::unique_ptr<Router> NewRouter(RoutingOptions options = {}) {
    options.clocks.wall = options.clocks.thread = [this] { return clock_.now; };
    return std::make_unique<Router>(options, std::vector<const Engine*>{&many_, &few_, &slow_}, &programs_);
  }
  std::unique_ptr<Router> router_ = NewRouter();

  // As the core does it.
  std::string EngineFor(const std::vector<CellPtr>& cells, RouteLoad load, const EngineOptions& options = {}) {
    const absl::StatusOr<Route> route = router_->Choose("", cells, options, load);
    EXPECT_TRUE(route.ok()) << route.status();
    return std::string(router_->Settle(*route, cells, options)->name());
  }
  std::string EngineFor(RouteLoad load) { return EngineFor(cells_, load); }
};

TEST_F(RouterTest, TheFirstCallWaitsForATrialOfItsShape) {
  const Route route = router_->Choose("", cells_, {}, {.rows = 1, .steps = 1}).value();
  EXPECT_TRUE(route.is_provisional);
  EXPECT_EQ(route.engine, &many_);
  EXPECT_EQ(few_.ran + many_.ran, 0);
  EXPECT_EQ(router_->Settle(route, cells_, {}), &few_);
  const Route next = router_->Choose("auto", cells_, {}, {.rows = 1, .steps = 1}).value();
  EXPECT_FALSE(next.is_provisional);
  EXPECT_EQ(next.engine, &few_);
}

TEST_F(RouterTest, TheNumberOfRowsDecides) {
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  EXPECT_EQ(EngineFor({.rows = 64}), "few");  // known at one row only so far
  ASSERT_EQ(router_->trials(), 1u);
  router_->RunTrial();
  EXPECT_EQ(EngineFor({.rows = 64}), "many");
  EXPECT_EQ(EngineFor({.rows = 50}), "many");
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  EXPECT_EQ(router_->trials(), 0u);
}

TEST_F(RouterTest, WeightsDoNotMatterSizesDo) {
  EngineFor({.rows = 1});
  const int ran = few_.ran;
  EXPECT_EQ(EngineFor({CellOf(1, 0.25f)}, {.rows = 1}), "few");
  EXPECT_EQ(few_.ran, ran);
  EXPECT_EQ(EngineFor({CellOf(2)}, {.rows = 1}), "few");
  EXPECT_GT(few_.ran, ran);
}

TEST_F(RouterTest, AllCellsOfACallRunOnOneEngine) {
  // Dearer by far for two units, cheaper for one.
  few_.cost = [](const CellSpec& cell, int64_t, int64_t steps) {
    return steps * Microseconds(cell.hidden_size == 1 ? 50 : 500);
  };
  EXPECT_EQ(EngineFor({CellOf(1)}, {.rows = 1}), "few");
  EXPECT_EQ(EngineFor({CellOf(2)}, {.rows = 1}), "many");
  EXPECT_EQ(EngineFor({CellOf(1), CellOf(2)}, {.rows = 1}), "many");
}

TEST_F(RouterTest, NamesAreObeyedAndRefusedWithTheirReason) {
  EXPECT_EQ(router_->Choose("many", cells_, {}, {.rows = 1})->engine, &many_);
  EXPECT_EQ(router_->Choose("reference", cells_, {}, {.rows = 1})->engine, &slow_);
  many_.supports = [](const CellSpec&) { return absl::UnimplementedError("not today"); };
  const absl::Status refused = router_->Choose("many", cells_, {}, {.rows = 1}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("engine \"many\": not today"));
  EXPECT_EQ(router_->Choose("abacus", cells_, {}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(few_.ran + many_.ran, 0);
}

TEST_F(RouterTest, TheLastResortRunsOnlyWhatNoOtherCan) {
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  EXPECT_EQ(slow_.ran, 0);
  for (TimedEngine* engine : {&few_, &many_}) {
    engine->supports = [](const CellSpec&) { return absl::UnimplementedError("no"); };
  }
  EXPECT_EQ(EngineFor({.rows = 1}), "reference");
  EXPECT_EQ(slow_.ran, 0);
  slow_.supports = few_.supports;
  EXPECT_THAT(std::string(router_->Choose("", cells_, {}, {}).status().message()),
              HasSubstr("engine \"reference\": no"));
}

TEST_F(RouterTest, TheServersEngineComesBeforeMeasuringWhereItCan) {
  router_ = NewRouter({.engine = "many"});
  EXPECT_EQ(EngineFor({.rows = 1}), "many");
  EXPECT_EQ(router_->Choose("few", cells_, {}, {.rows = 1})->engine, &few_);
  EXPECT_TRUE(router_->Choose("auto", cells_, {}, {.rows = 1})->is_provisional) << "it is to be measured";
  many_.supports = [](const CellSpec&) { return absl::UnimplementedError("no"); };
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  EXPECT_EQ(few_.ran + many_.ran, 0);
}

TEST_F(RouterTest, DeterministicCallsRunOnOneEngineAlways) {
  EXPECT_EQ(EngineFor(cells_, {.rows = 1}, {.deterministic = true}), "many");
  EXPECT_EQ(EngineFor(cells_, {.rows = 64}, {.deterministic = true}), "many");
  EXPECT_EQ(few_.ran + many_.ran, 0);
}

TEST_F(RouterTest, RowsOfOthersCount) {
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  for (int call = 0; call < 100; ++call) router_->Ran(cells_, {}, {.rows = 1}, 64);
  EngineFor({.rows = 1});
  router_->RunTrial();
  EXPECT_EQ(EngineFor({.rows = 1}), "many");
  for (int call = 0; call < 100; ++call) router_->Ran(cells_, {}, {.rows = 1}, 1);
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
}

// Where several calls share a slice the server's threads need the CPUs, and an engine has one. Figures of the one kind
// are as far from the other as those of twice as many rows.
TEST_F(RouterTest, SharedRowsAreMeasuredOnOneThread) {
  EXPECT_EQ(EngineFor({.rows = 2}), "few");
  EXPECT_TRUE(few_.was_alone);
  for (int call = 0; call < 100; ++call) router_->Ran(cells_, {}, {.rows = 1}, 2);
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  ASSERT_EQ(router_->trials(), 1u);
  router_->RunTrial();
  EXPECT_FALSE(few_.was_alone || many_.was_alone);
}

TEST_F(RouterTest, WhatIsUsedOftenIsMeasuredAgain) {
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  few_.cost = [](const CellSpec&, int64_t, int64_t steps) { return steps * Microseconds(200); };
  int calls = 0;
  while (router_->trials() == 0) {
    EXPECT_EQ(EngineFor({.rows = 1}), "few");
    ASSERT_LT(++calls, 1000);
  }
  router_->RunTrial();
  EXPECT_EQ(EngineFor({.rows = 1}), "many");
  // Ever more rarely.
  int later = 0;
  while (router_->trials() == 0) {
    EngineFor({.rows = 1});
    ASSERT_LT(++later, 1000);
  }
  EXPECT_GT(later, calls - 5);
}

TEST_F(RouterTest, TiesChangeNothing) {
  few_.cost = many_.cost = [](const CellSpec&, int64_t, int64_t steps) { return steps * Microseconds(100); };
  EXPECT_EQ(EngineFor({.rows = 1}), "many");
  few_.cost = [](const CellSpec&, int64_t, int64_t steps) { return steps * Microseconds(97); };
  while (router_->trials() == 0) EngineFor({.rows = 1});
  router_->RunTrial();
  EXPECT_EQ(EngineFor({.rows = 1}), "many");
  few_.cost = [](const CellSpec&, int64_t, int64_t steps) { return steps * Microseconds(94); };
  while (router_->trials() == 0) EngineFor({.rows = 1});
  router_->RunTrial();
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
}

TEST_F(RouterTest, AnEngineThatFailsItsTrialIsNotTaken) {
  few_.runs = absl::InternalError("out of order");
  EXPECT_EQ(EngineFor({.rows = 1}), "many");
  many_.runs = few_.runs;
  EXPECT_EQ(EngineFor({CellOf(2)}, {.rows = 1}), "many");  // the first, so that its error is told
  EXPECT_FALSE(router_->Choose("", {{CellOf(2)}}, {}, {.rows = 1})->is_provisional);
}

TEST_F(RouterTest, WaitingForTrialsIsBounded) {
  router_ = NewRouter({.most_waiting = absl::Milliseconds(5), .waiting_share = 0.1});
  many_.cost = few_.cost = [](const CellSpec&, int64_t, int64_t) { return absl::Milliseconds(1); };
  int64_t units = 0;
  const auto measures = [&] {
    const int ran = few_.ran;
    EngineFor({CellOf(++units)}, {.rows = 1});
    return few_.ran > ran;
  };
  EXPECT_TRUE(measures());
  EXPECT_FALSE(measures());
  clock_.now += absl::Seconds(1);
  EXPECT_TRUE(measures());
  EXPECT_FALSE(measures());
  EXPECT_GT(router_->trials(), 0u);  // the background gets to them
  router_->RunTrial();
  EXPECT_FALSE(router_->Choose("", {{CellOf(2)}}, {}, {.rows = 1})->is_provisional);
}

TEST_F(RouterTest, ARunOfATrialIsShort) {
  few_.cost = many_.cost = [](const CellSpec&, int64_t, int64_t steps) { return steps * absl::Milliseconds(20); };
  const absl::Duration before = clock_.now;
  EngineFor({.rows = 64, .steps = 400});
  // Each: two runs of one step, one of two to warm up, two timed ones of two.
  EXPECT_EQ(clock_.now - before, 2 * 8 * absl::Milliseconds(20));
}

TEST_F(RouterTest, WhatOtherThreadsTakeDoesNotCount) {
  RoutingOptions options;
  options.clocks.thread = [this] { return clock_.now; };
  options.clocks.wall = [this, looks = 0]() mutable { return clock_.now + ++looks * absl::Milliseconds(1); };
  router_ = std::make_unique<Router>(options, std::vector<const Engine*>{&many_, &few_, &slow_}, &programs_);
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  EXPECT_EQ(EngineFor({CellOf(2)}, {.rows = 64}), "many");
}

TEST_F(RouterTest, AProgramThatWaitsIsTimedByTheWall) {
  RoutingOptions options;
  options.clocks.thread = [] { return absl::ZeroDuration(); };
  options.clocks.wall = [this] { return clock_.now; };
  few_.waits = many_.waits = true;
  router_ = std::make_unique<Router>(options, std::vector<const Engine*>{&many_, &few_, &slow_}, &programs_);
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
}

TEST_F(RouterTest, TrialsRestInBetween) {
  router_ = NewRouter({.background_share = 0.05});
  EngineFor({.rows = 1});
  EngineFor({.rows = 64});
  const absl::Duration before = clock_.now;
  const absl::Duration rest = router_->RunTrial();
  EXPECT_EQ(rest, (clock_.now - before) * 19);
  EXPECT_EQ(router_->RunTrial(), absl::ZeroDuration());
}

TEST_F(RouterTest, OldFiguresAreInLessOfAHurry) {
  router_ = NewRouter({.background_share = 0.05, .retry_share = 0.01});
  for (int k = 0; router_->trials() == 0; ++k) {
    ASSERT_LT(k, 1000);
    EngineFor({.rows = 1});
  }
  const absl::Duration before = clock_.now;
  const absl::Duration rest = router_->RunTrial();
  EXPECT_EQ(rest, (clock_.now - before) * 99);
}

TEST_F(RouterTest, OnlyTheFastestProgramStaysPacked) {
  EngineFor({.rows = 1});
  EXPECT_TRUE(programs_.Holds(few_, *cells_[0], {}));
  EXPECT_FALSE(programs_.Holds(many_, *cells_[0], {}));
  // A call that had packed it keeps it.
  const std::vector<CellPtr> other = {CellOf(3)};
  ASSERT_TRUE(programs_.Get(many_, other[0], {}).ok());
  EngineFor(other, {.rows = 1});
  EXPECT_TRUE(programs_.Holds(many_, *other[0], {}));
}

TEST_F(RouterTest, ThreadsThatAskAtOnceMeasureOnce) {
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([this] { EXPECT_EQ(EngineFor({.rows = 1}), "few"); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(few_.compiled, 1);
  EXPECT_EQ(many_.compiled, 1);
}

TEST_F(RouterTest, AThreadRunsTrialsUntilItIsStopped) {
  EXPECT_EQ(EngineFor({.rows = 1}), "few");
  {
    RoutingThread thread(router_.get());
    EngineFor({.rows = 64});
    while (router_->trials() > 0) std::this_thread::yield();
  }
  EXPECT_EQ(EngineFor({.rows = 64}), "many");
  EXPECT_FALSE(router_->AwaitTrial());
}

TEST(RoutingTable, ForgetsTheCellsNotAskedForTheLongest) {
  FakeClock clock;
  const TimedEngine engine("only", &clock, [](const CellSpec&, int64_t, int64_t) { return absl::ZeroDuration(); });
  RoutingTable table;
  const auto key = [](int64_t units) {
    RouteKey made;
    made.cell.hidden_size = units;
    return made;
  };
  const auto most = static_cast<int64_t>(RoutingTable::kMostCells);
  for (int64_t units = 1; units <= most; ++units) table.Put(key(units), {}, {{&engine, 1.0}});
  EXPECT_NE(table.Find(key(1), {}).costs, nullptr);
  table.Shared(key(2), 5);
  EXPECT_GT(table.others(key(2)), 0);
  table.Put(key(most + 1), {}, {{&engine, 1.0}});
  table.Shared(key(2), 5);  // the one that was told of last has gone
  EXPECT_EQ(table.others(key(2)), 0);
  EXPECT_EQ(table.cells(), RoutingTable::kMostCells);
  EXPECT_NE(table.Find(key(1), {}).costs, nullptr);
  EXPECT_EQ(table.Find(key(2), {}).costs, nullptr);
}

// Whatever callers choose freely tells keys apart: of one bucket they would slow down each other's calls.
TEST(RoutingTable, KeysOfOneSizeHaveManyHashes) {
  std::set<size_t> hashes;
  for (int k = 0; k < 100; ++k) {
    RouteKey alpha, beta, clip;
    alpha.cell.activations[0].alpha = k + 1;
    beta.cell.activations.back().beta = k + 1;
    clip.cell.clip = k + 1;
    for (const RouteKey& key : {alpha, beta, clip}) hashes.insert(RouteKeyHash()(key));
  }
  EXPECT_GT(hashes.size(), 290);
}

TEST(RouteShape, IsTheNearestClass) {
  EXPECT_EQ(ShapeOf({0, 0}), (RouteShape{1, 1}));
  EXPECT_EQ(ShapeOf({3, 2}), (RouteShape{4, 1}));
  EXPECT_EQ(ShapeOf({23, 3}), (RouteShape{32, 4}));
  EXPECT_EQ(ShapeOf({1 << 20, 4096}), (RouteShape{1024, 16}));
  EXPECT_EQ(ShapeOf({3, 1, true}), (RouteShape{4, 1, true}));
  EXPECT_EQ(Distance({4, 1, true}, {4, 1, false}), Distance({4, 1, true}, {8, 1, true}));
}

}  // namespace
}  // namespace rnnserve
