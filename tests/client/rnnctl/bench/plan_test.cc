// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/rnnctl/run_rnnctl.h"

namespace rnnserve::rnnctl::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LevelsTest, AreListsAndRanges) {
  EXPECT_THAT(*ParseLevels("64", "--rate"), ElementsAre(64));
  EXPECT_THAT(*ParseLevels("1,8,0.5", "--rate"), ElementsAre(1, 8, 0.5));
  EXPECT_THAT(*ParseLevels("1:64", "--rate"), ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(*ParseLevels("3:13", "--rate"), ElementsAre(3, 6, 12));
  EXPECT_THAT(*ParseLevels("4:16:4,100", "--rate"), ElementsAre(4, 8, 12, 16, 100));
}

TEST(LevelsTest, RefusesWhatIsNone) {
  for (const char* text : {"", "0", "-1", "x", "1,", "8:1", "1:2:0", "1:2:3:4", "nan", "inf"}) {
    const auto levels = ParseLevels(text, "--rate");
    ASSERT_FALSE(levels.ok()) << text;
    EXPECT_TRUE(IsUsageError(levels.status()));
    EXPECT_THAT(std::string(levels.status().message()), HasSubstr("--rate="));
  }
  EXPECT_FALSE(ParseLevels("1:1000000:0.001", "--rate").ok());
}

// Errors come before anything is sent: the address leads nowhere.
std::string UsageOf(std::vector<std::string> words) {
  words.insert(words.begin(), {"bench", "--server=127.0.0.1:1"});
  const Outcome outcome = RunRnnctl(words);
  EXPECT_EQ(outcome.code, kUsage) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  return outcome.err;
}

TEST(PlanTest, FlagsThatExcludeEachOtherAreRefused) {
  EXPECT_THAT(UsageOf({"--rate=1", "--concurrency=1"}), HasSubstr("--concurrency and --rate exclude"));
  EXPECT_THAT(UsageOf({"--model=a", "--hidden=3"}), HasSubstr("--hidden and --model exclude"));
  EXPECT_THAT(UsageOf({"--mix=m.json", "--steps=3"}), HasSubstr("--steps and --mix exclude"));
  EXPECT_THAT(UsageOf({"--json", "--csv"}), HasSubstr("--json and --csv exclude"));
  EXPECT_THAT(UsageOf({"--duration=1s", "--stability=5%"}), HasSubstr("--stability and --duration exclude"));
  EXPECT_THAT(UsageOf({"--echo", "--check=exact"}), HasSubstr("--check and --echo exclude"));
  EXPECT_THAT(UsageOf({"--echo", "--model=a"}), HasSubstr("--echo asks no server for models"));
  EXPECT_THAT(UsageOf({"--max-in-flight=3"}), HasSubstr("belongs to --rate"));
  EXPECT_THAT(UsageOf({"--tick=5ms"}), HasSubstr("belongs to --rate"));
}

TEST(PlanTest, WrongValuesAreRefused) {
  EXPECT_THAT(UsageOf({"--concurrency=1.5"}), HasSubstr("whole number of callers"));
  EXPECT_THAT(UsageOf({"--concurrency=100000"}), HasSubstr("up to 65536"));
  EXPECT_THAT(UsageOf({"--steps=0"}), HasSubstr("--steps=0"));
  EXPECT_THAT(UsageOf({"--steps=9:3"}), HasSubstr("SHORTEST:LONGEST"));
  EXPECT_THAT(UsageOf({"--op=LSTMSequence"}), HasSubstr("not for LSTMSequence"));
  EXPECT_THAT(UsageOf({"--attr=layout=1"}), HasSubstr("layout"));
  EXPECT_THAT(UsageOf({"--stability=0"}), HasSubstr("--stability=0"));
  EXPECT_THAT(UsageOf({"--stability=101%"}), HasSubstr("--stability=101%"));
  EXPECT_THAT(UsageOf({"--window=1us"}), HasSubstr("--window=1us"));
  EXPECT_THAT(UsageOf({"--duration=-1s"}), HasSubstr("--duration=-1s"));
  EXPECT_THAT(UsageOf({"--check=-1"}), HasSubstr("--check=-1"));
  EXPECT_THAT(UsageOf({"--mix=/nowhere/mix.json"}), HasSubstr("cannot read /nowhere/mix.json"));
  EXPECT_THAT(UsageOf({"request.json"}), HasSubstr("what is request.json?"));
}

TEST(PlanTest, HelpHasExamples) {
  const Outcome outcome = RunRnnctl({"bench", "--help"});
  EXPECT_EQ(outcome.code, kOk);
  EXPECT_THAT(outcome.out, HasSubstr("rnnctl bench --op LSTM"));
  EXPECT_THAT(outcome.out, HasSubstr("--rate=R"));
}

}  // namespace
}  // namespace rnnserve::rnnctl::bench
