// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/helper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "engine/cpu/cpu_engine.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

constexpr int64_t kLarge = int64_t{1} << 40;

// Each part counts itself, on whichever thread.
void ExpectEachPartOnce(Team& team, size_t parts) {
  std::vector<int> runs(parts);
  team.Run(parts, [&runs](size_t part) { ++runs[part]; });
  EXPECT_EQ(runs, std::vector<int>(parts, 1));
}

TEST(TeamTest, AloneItRunsEveryPart) {
  Team team;
  EXPECT_FALSE(team.IsShared());
  for (const size_t parts : {0, 1, 2, 17}) ExpectEachPartOnce(team, parts);
}

TEST(TeamTest, EachPartRunsOnceOnEitherThread) {
  Helper helper;
  for (int round = 0; round < 200; ++round) {
    Team team(&helper, kLarge);
    for (const size_t parts : {2, 3, 16, 100}) ExpectEachPartOnce(team, parts);
  }
}

// Woken, it comes sooner or later; until then the caller does all.
TEST(TeamTest, TheHelperTakesParts) {
  Helper helper;
  while (helper.parts_taken() == 0) {
    Team team(&helper, kLarge);
    ExpectEachPartOnce(team, 64);
  }
}

// It is woken off the caller's CPU, but may run on all of them.
TEST(TeamTest, TheHelperMayRunWhereTheCallerMay) {
  const auto allowed = [] {
    cpu_set_t set;
    EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    return set;
  };
  const cpu_set_t own = allowed();
  const auto caller = std::this_thread::get_id();
  Helper helper;
  for (int64_t taken = 0; taken < 20; taken = helper.parts_taken()) {
    Team team(&helper, kLarge);
    team.Run(64, [&](size_t) {
      if (std::this_thread::get_id() == caller) return;
      const cpu_set_t its = allowed();
      EXPECT_TRUE(CPU_EQUAL(&its, &own));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it falls asleep
  }
}

// Each thread reads what the other wrote in the run before, from the first run on.
TEST(TeamTest, InStepEachRunSeesTheOneBefore) {
  Helper helper;
  for (int round = 0; round < 200; ++round) {
    Team team(&helper, kLarge);
    constexpr size_t kRuns = 50;
    unsigned wrote[kRuns + 1][2] = {{1, 1}};
    team.RunInStep([&wrote](Team& own, size_t) {
      EXPECT_TRUE(own.IsInStep());
      for (size_t run = 0; run < kRuns; ++run) {
        own.Run(2, [&](size_t part) { wrote[run + 1][part] += wrote[run][0] + wrote[run][1]; });
      }
    });
    // Twice as much in every run, modulo 2^32.
    unsigned expected = 1;
    for (const auto& parts : wrote) {
      EXPECT_EQ(parts[0], expected);
      EXPECT_EQ(parts[1], expected);
      expected *= 2;
    }
  }
}

TEST(TeamTest, ASecondOneIsAloneAndMakesTheFirstAlone) {
  Helper helper;
  Team first(&helper, kLarge);
  EXPECT_TRUE(first.IsShared());
  {
    Team second(&helper, kLarge);
    EXPECT_FALSE(second.IsShared());
    EXPECT_FALSE(first.IsShared());
    ExpectEachPartOnce(second, 5);
    ExpectEachPartOnce(first, 5);
  }
  EXPECT_TRUE(first.IsShared());
  ExpectEachPartOnce(first, 5);
}

TEST(TeamTest, OneThatMayNotShareMakesOthersAlone) {
  Helper helper;
  Team first(&helper, kLarge);
  {
    Team second(&helper, kLarge, /*may_share=*/false);
    EXPECT_FALSE(first.IsShared());
  }
  EXPECT_TRUE(first.IsShared());
}

TEST(TeamTest, OneThatMayNotShareDoesAllItself) {
  Helper helper;
  Team team(&helper, kLarge, /*may_share=*/false);
  EXPECT_FALSE(team.IsShared());
  ExpectEachPartOnce(team, 5);
  EXPECT_EQ(helper.parts_taken(), 0);
}

struct Case {
  CellSpec spec;
  size_t rows;
};

// Large enough to be shared; units that do not fill their lines.
std::vector<Case> Cases() {
  CellSpec linear = DefaultSpec(CellKind::kGru, DataType::kFloat, 150, 140);
  linear.linear_before_reset = true;
  CellSpec peephole = DefaultSpec(CellKind::kLstm, DataType::kFloat, 100, 130);
  peephole.has_peephole = true;
  return {{DefaultSpec(CellKind::kLstm, DataType::kFloat, 200, 300), 1},
          {DefaultSpec(CellKind::kLstm, DataType::kDouble, 120, 170), 7},
          {DefaultSpec(CellKind::kGru, DataType::kBFloat16, 150, 140), 3},
          {DefaultSpec(CellKind::kRnn, DataType::kFloat, 20, 270), 1},
          {linear, 17},
          {peephole, 40},
          {DefaultSpec(CellKind::kGru, DataType::kFloat, 260, 300), 33},  // 2.3 MB of weights
          {DefaultSpec(CellKind::kRnn, DataType::kFloat, 300, 257), 9}};
}

Sequences MakeSequences(const Program& program, const Case& test, uint32_t seed) {
  Sequences sequences(program, test.spec);
  for (size_t k = 0; k < test.rows; ++k) {
    sequences.Add(static_cast<int64_t>(1 + (k * 5 + seed) % 9), seed + static_cast<uint32_t>(k));
  }
  return sequences;
}

void Advance(const Program& program, const std::vector<SequenceSlice>& slices) {
  const auto workspace = program.NewWorkspace();
  ASSERT_TRUE(program.Advance(slices, *workspace).ok());
}

void ExpectSameBits(const Case& test, const EngineOptions& options = {.deterministic = true}) {
  const auto alone = MakeCpuEngine(), helped = MakeCpuEngineWithHelper();
  const CellPtr cell = RandomCell(test.spec, 3);
  const ProgramPtr one = alone->Compile(cell, options).value(), two = helped->Compile(cell, options).value();
  Sequences expected = MakeSequences(*one, test, 1);
  Advance(*one, expected.All());
  for (int round = 0; round < 10; ++round) {
    Sequences results = MakeSequences(*two, test, 1);
    Advance(*two, results.All());
    for (size_t k = 0; k < test.rows; ++k) ASSERT_EQ(results.Results(k), expected.Results(k)) << "row " << k;
  }
}

TEST(HelpedEngineTest, HasTheSameBits) {
  for (const Case& test : Cases()) ExpectSameBits(test);
}

TEST(HelpedEngineTest, HasTheSameBitsWithNarrowWeights) {
  for (const WeightType type : {WeightType::kFloat16, WeightType::kBFloat16, WeightType::kInt8}) {
    ExpectSameBits({DefaultSpec(CellKind::kLstm, DataType::kFloat, 100, 130), 18},
                   {.allow_reduced_precision = true, .deterministic = true, .weights = type});
  }
  // Their panels go back and forth.
  ExpectSameBits({DefaultSpec(CellKind::kGru, DataType::kFloat, 30, 430), 18},
                 {.allow_reduced_precision = true, .deterministic = true, .weights = WeightType::kBFloat16});
}

// By tiles, where the CPU has them and while they are faster; each run of a workspace may go another way.
TEST(HelpedEngineTest, IsRightWhereBitsMayVary) {
  for (const Case& test : Cases()) {
    const CellPtr cell = RandomCell(test.spec, 3);
    const ProgramPtr exact = MakeCpuEngine()->Compile(cell, {.deterministic = true}).value();
    const ProgramPtr varies = MakeCpuEngineWithHelper()->Compile(cell, {}).value();
    Sequences expected = MakeSequences(*exact, test, 1);
    Advance(*exact, expected.All());
    const auto workspace = varies->NewWorkspace();
    const double tolerance = test.spec.data_type == DataType::kBFloat16 ? 0.01 : 1e-5;
    for (int round = 0; round < 20; ++round) {
      Sequences results = MakeSequences(*varies, test, 1);
      ASSERT_TRUE(varies->Advance(results.All(), *workspace).ok());
      for (size_t k = 0; k < test.rows; ++k) {
        EXPECT_THAT(results.Y(k), testing::Pointwise(testing::DoubleNear(tolerance), expected.Y(k))) << "row " << k;
      }
    }
  }
}

// Each row goes on from the state before it, which the row of the other thread writes.
TEST(HelpedEngineTest, StatesAreReadBeforeAnyIsWritten) {
  const auto engine = MakeCpuEngineWithHelper();
  const Case test = {DefaultSpec(CellKind::kLstm, DataType::kFloat, 100, 130), 24};
  const ProgramPtr program = engine->Compile(RandomCell(test.spec, 3), {.deterministic = true}).value();
  const auto shift = [](std::vector<SequenceSlice> slices) {
    const State* const last = slices.back().after;
    for (size_t k = slices.size() - 1; k > 0; --k) slices[k].before = slices[k - 1].after;
    slices[0].before = last;
    return slices;
  };
  const auto alone = MakeCpuEngine();
  const ProgramPtr one = alone->Compile(RandomCell(test.spec, 3), {.deterministic = true}).value();
  Sequences expected = MakeSequences(*one, test, 1);
  Advance(*one, shift(expected.All()));
  for (int round = 0; round < 20; ++round) {
    Sequences results = MakeSequences(*program, test, 1);
    Advance(*program, shift(results.All()));
    for (size_t k = 0; k < test.rows; ++k) ASSERT_EQ(results.Results(k), expected.Results(k)) << "row " << k;
  }
}

TEST(HelpedEngineTest, HasTheSameBitsWhereItIsNotAlone) {
  const auto engine = MakeCpuEngineWithHelper();
  const Case test = Cases()[0];
  const ProgramPtr program = engine->Compile(RandomCell(test.spec, 3), {.deterministic = true}).value();
  Sequences expected = MakeSequences(*program, test, 1), results = MakeSequences(*program, test, 1);
  Advance(*program, expected.All());
  const auto workspace = program->NewWorkspace();
  workspace->is_alone = false;
  ASSERT_TRUE(program->Advance(results.All(), *workspace).ok());
  EXPECT_EQ(results.Results(0), expected.Results(0));
}

TEST(HelpedEngineTest, ManyThreadsShareIt) {
  const auto engine = MakeCpuEngineWithHelper();
  const Case test = {DefaultSpec(CellKind::kLstm, DataType::kFloat, 200, 300), 3};
  const ProgramPtr program = engine->Compile(RandomCell(test.spec, 3), {.deterministic = true}).value();
  std::vector<Sequences> expected;
  for (uint32_t seed = 0; seed < 3; ++seed) {
    expected.push_back(MakeSequences(*program, test, seed));
    Advance(*program, expected.back().All());
  }
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 3; ++seed) {
    threads.emplace_back([&, seed] {
      for (int round = 0; round < 20; ++round) {
        Sequences results = MakeSequences(*program, test, seed);
        Advance(*program, results.All());
        for (size_t k = 0; k < test.rows; ++k) ASSERT_EQ(results.Results(k), expected[seed].Results(k));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Programs outlive their engine, and so does the helper.
TEST(HelpedEngineTest, ProgramsOutliveTheEngine) {
  auto engine = MakeCpuEngineWithHelper();
  const Case test = Cases()[0];
  const ProgramPtr program = engine->Compile(RandomCell(test.spec, 3), {.deterministic = true}).value();
  engine.reset();
  Sequences results = MakeSequences(*program, test, 1);
  Advance(*program, results.All());
}

}  // namespace
}  // namespace rnnserve::cpu
