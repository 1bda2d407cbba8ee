// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/log.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "server/telemetry/log_limit.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Log, TextIsOneLine) { EXPECT_EQ(LogLineAsText("a\nb\x1b[1m", {{"id", "x\ry"}, {"none", ""}}), "a b [1m id=x y"); }

TEST(Log, JsonKeepsWhatWasSaidWhateverItHolds) {
  const std::string line = LogLineAsJson("a\n\"b\" %s {} \xff", {{"id", "\\"}, {"none", ""}});
  const nlohmann::json event = nlohmann::json::parse("{" + line + "}");
  EXPECT_EQ(event["message"], "a\n\"b\" %s {} \xEF\xBF\xBD");
  EXPECT_EQ(event["id"], "\\");
  EXPECT_FALSE(event.contains("none"));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

TEST(Log, LongTextIsCut) {
  const std::string value(100'000, 'x');
  EXPECT_LT(LogLineAsText(value, {{"id", value}}).size(), 5000u);
  EXPECT_LT(LogLineAsJson(value, {{"id", value}}).size(), 5000u);
}

TEST(Log, FormatsAndLevelsThatAreNot) {
  EXPECT_FALSE(SetLogFormat("xml"));
  EXPECT_FALSE(SetLogLevel("loud"));
}

TEST(Log, TheLatestProblemsAreKeptAFewTheNewestFirst) {
  LogInfo("no problem");
  for (int k = 0; k < 100; ++k) LogWarning(std::to_string(k));
  LogError("the last");
  const std::vector<LoggedProblem> problems = LatestProblems();
  ASSERT_EQ(problems.size(), 20u);
  EXPECT_EQ(problems[0].text, "the last");
  EXPECT_EQ(problems[0].level, "error");
  EXPECT_EQ(problems[1].text, "99");
}

TEST(LogLimit, AllowsOnceInAnIntervalAndCountsTheRest) {
  LogLimit limit(absl::Seconds(1));
  const absl::Time start = absl::FromUnixSeconds(1000);
  EXPECT_EQ(limit.Allow(start), 0);
  EXPECT_EQ(limit.Allow(start), std::nullopt);
  EXPECT_EQ(limit.Allow(start + absl::Seconds(1) - absl::Nanoseconds(1)), std::nullopt);
  EXPECT_EQ(limit.Allow(start + absl::Seconds(1)), 2);
  EXPECT_EQ(limit.Allow(start + absl::Seconds(2)), 0);
}

TEST(LogLimit, AClockSetBackDoesNotSilenceIt) {
  LogLimit limit(absl::Seconds(1));
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  EXPECT_EQ(limit.Allow(start), 0);
  EXPECT_EQ(limit.Allow(start - absl::Hours(24)), 0);
}

}  // namespace
}  // namespace rnnserve
