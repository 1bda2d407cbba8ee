// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/log.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "server/telemetry/log_limit.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Log, TextIsOneLine) {
  EXPECT_EQ(LogLineAsText("a\nb\x1b[1m", {}), "a b [1m");
  EXPECT_EQ(LogLineAsText("a\xc2\x9b"
                          "1m\xe2\x80\xaex \xc3\xa4 --flag=1",
                          {}),
            "a 1m x \xc3\xa4 --flag=1");
}

TEST(Log, FieldsOfATextCannotBeForged) {
  const auto value = [](std::string_view text) { return LogLineAsText("m", {{"id", text}, {"none", ""}}); };
  EXPECT_EQ(value("plain-1.2:[::1]/x"), "m id=plain-1.2:[::1]/x");
  EXPECT_EQ(value("\xc3\xa4"), "m id=\xc3\xa4");
  EXPECT_EQ(value("a b"), "m id=\"a b\"");
  EXPECT_EQ(value("a peer=1.2.3.4"), "m id=\"a peer=1.2.3.4\"");
  EXPECT_EQ(value("a=b"), "m id=\"a=b\"");
  EXPECT_EQ(value("a\" peer=\"b"), "m id=\"a\\\" peer=\\\"b\"");
  EXPECT_EQ(value("a\\"), "m id=\"a\\\\\"");
  EXPECT_EQ(value("a\n\r\x7f\x1b[1m"), "m id=\"a\\n\\x0d\\x7f\\x1b[1m\"");
  EXPECT_EQ(value(std::string_view("a\0b", 3)), "m id=\"a\\x00b\"");
  EXPECT_EQ(value("a\xc2\x9b"
                  "1m\xe2\x80\xa8"),
            "m id=\"a\\xc2\\x9b1m\\xe2\\x80\\xa8\"");
}

TEST(Log, ATextThatCouldHoldFieldsIsQuotedBeforeThem) {
  EXPECT_EQ(LogLineAsText("engine \"x\" peer=me", {{"peer", "you"}}), "\"engine \\\"x\\\" peer=me\" peer=you");
}

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

TEST(LogLimit, AllowsSeveralInAnInterval) {
  LogLimit limit(absl::Seconds(1), 2);
  const absl::Time start = absl::FromUnixSeconds(1000);
  EXPECT_EQ(limit.Allow(start), 0);
  EXPECT_EQ(limit.Allow(start), 0);
  EXPECT_EQ(limit.Allow(start), std::nullopt);
  EXPECT_EQ(limit.Allow(start + absl::Seconds(1)), 1);
  EXPECT_EQ(limit.Allow(start + absl::Seconds(1)), 0);
  EXPECT_EQ(limit.Allow(start + absl::Seconds(1)), std::nullopt);
}

TEST(LogLimit, AClockSetBackDoesNotSilenceIt) {
  LogLimit limit(absl::Seconds(1));
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  EXPECT_EQ(limit.Allow(start), 0);
  EXPECT_EQ(limit.Allow(start - absl::Hours(24)), 0);
}

}  // namespace
}  // namespace rnnserve
