// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/report.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace rnnserve::rnnctl::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

Report MakeReport() {
  Level level;
  level.load.concurrency = 8;
  level.ended = Ended::kStable;
  level.windows = 3;
  for (int k = 0; k < 100; ++k) {
    Answer answer;
    answer.queue = microseconds(100);
    answer.compute = microseconds(250);
    answer.has_server_times = true;
    answer.largest_batch = 4;
    answer.sent_bytes = 640;
    answer.received_bytes = 700;
    level.tally.Record(answer, milliseconds(k < 99 ? 2 : 50), Time(0));
  }
  Answer refused;
  refused.code = 8;
  refused.message = "full \"queue\"\n\x1b[31m\xff";
  level.tally.Record(refused, Time(0), Time(0));
  level.tally.span = std::chrono::seconds(2);
  level.tally.cpu = microseconds(1010);
  return {"LSTM", {level}};
}

google::protobuf::Struct Parse(const std::string& json) {
  google::protobuf::Struct parsed;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok()) << json;
  return parsed;
}

TEST(ReportTest, TableHasTheFiguresAndTheRefusals) {
  const std::string text = ShowReport(MakeReport(), false);
  EXPECT_THAT(text, HasSubstr("640 bytes out and 700 back"));
  EXPECT_THAT(text, HasSubstr("8 callers  50.00    2.0"));
  EXPECT_THAT(text, HasSubstr("0.100"));
  EXPECT_THAT(text, HasSubstr("0.250"));
  EXPECT_THAT(text, HasSubstr("1 calls ended with RESOURCE_EXHAUSTED, the first: full \"queue\""));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("below")));
  EXPECT_THAT(ShowReport(MakeReport(), true), HasSubstr("below 50.33 ms"));
}

TEST(ReportTest, JsonIsJsonWhateverTheServerSaid) {
  const google::protobuf::Struct json = Parse(ReportJson(MakeReport()));
  const auto& level = json.fields().at("levels").list_value().values(0).struct_value().fields();
  EXPECT_EQ(level.at("calls").number_value(), 100);
  EXPECT_EQ(level.at("calls_per_second").number_value(), 50);
  EXPECT_EQ(level.at("failed").number_value(), 1);
  EXPECT_NEAR(level.at("latency_p50_ms").number_value(), 2, 2.0 / 64);
  EXPECT_EQ(level.at("latency_max_ms").number_value(), 50);
  EXPECT_NEAR(level.at("compute_p99_ms").number_value(), 0.25, 1e-6);
  EXPECT_EQ(level.at("client_cpu_us_per_call").number_value(), 10);
  EXPECT_EQ(level.at("ended").string_value(), "stable");
  const auto& error = level.at("errors").list_value().values(0).struct_value().fields();
  EXPECT_EQ(error.at("first_message").string_value(), "full \"queue\"??[31m?");
  double counted = 0;
  for (const auto& bucket : level.at("latency_buckets_below_ms").list_value().values()) {
    counted += bucket.list_value().values(1).number_value();
  }
  EXPECT_EQ(counted, 100);
}

TEST(ReportTest, CsvHasOneRowForEachLevelAndEqualColumns) {
  Report report = MakeReport();
  report.levels.push_back(report.levels[0]);
  const std::vector<std::string> lines = absl::StrSplit(ReportCsv(report), '\n');
  ASSERT_EQ(lines.size(), 4u);  // header, two levels, the end
  EXPECT_EQ(lines[3], "");
  const auto columns = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  EXPECT_EQ(columns(lines[0]), columns(lines[1]));
  EXPECT_THAT(lines[0], HasSubstr("concurrency,rate,ended"));
  EXPECT_THAT(lines[1], HasSubstr("8,0,stable,3,2.000000,100,50.000,1,RESOURCE_EXHAUSTED=1"));
}

TEST(ReportTest, NothingMeasuredIsShownAsNothing) {
  Report report = {"LSTM", {Level()}};
  EXPECT_THAT(ShowReport(report, true), HasSubstr("interrupted"));
  Parse(ReportJson(report));
  Parse(ReportJson({"LSTM", {}}));
  EXPECT_THAT(ReportCsv({"LSTM", {}}), HasSubstr("calls_per_second"));
}

TEST(ReportTest, SaysWhatAnOpenLoopCouldNotDo) {
  Report report = MakeReport();
  report.levels[0].load.rate = 5000;
  report.levels[0].unsent = 12;
  report.levels[0].tally.wrong = 3;
  const std::string text = ShowReport(report, false);
  EXPECT_THAT(text, HasSubstr("5000/s: 12 requests were due but never sent"));
  EXPECT_THAT(text, HasSubstr("3 WRONG"));
}

}  // namespace
}  // namespace rnnserve::rnnctl::bench
