// SPDX-License-Identifier: Apache-2.0
#include "server/admin/status_json.h"

#include <gmock/gmock.h>

#include <vector>

#include "server/telemetry/request_metrics.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<double> kBounds = {1, 2, 4};

TEST(Quantile, LiesWithinItsBucket) {
  EXPECT_DOUBLE_EQ(Quantile(kBounds, std::vector<int64_t>{0, 10, 0, 0}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(Quantile(kBounds, std::vector<int64_t>{0, 10, 0, 0}, 1), 2);
  EXPECT_DOUBLE_EQ(Quantile(kBounds, std::vector<int64_t>{5, 0, 5, 0}, 0.75), 3);
  EXPECT_DOUBLE_EQ(Quantile(kBounds, std::vector<int64_t>{5, 0, 5, 0}, 0.5), 1);
}

TEST(Quantile, AboveAllBoundsIsTheLastBound) {
  EXPECT_DOUBLE_EQ(Quantile(kBounds, std::vector<int64_t>{1, 0, 0, 99}, 0.5), 4);
}

TEST(Quantile, OfNothingIsZero) { EXPECT_EQ(Quantile(kBounds, std::vector<int64_t>{0, 0, 0, 0}, 0.5), 0); }

TEST(StatusJson, ShowsWhatIsCounted) {
  Metrics metrics;
  const RequestMetrics requests(metrics);
  const auto infer = requests.Method("Infer");
  infer->Answered(absl::StatusCode::kOk, absl::Milliseconds(1));
  infer->Answered(absl::StatusCode::kInternal, absl::Milliseconds(1));
  ModelLabels labels(64);
  WorkMetricsTable table(metrics, labels);
  const auto work = table.Of("vad \xff", "cpu");  // a name that is no UTF-8
  work->slices->Add(2);
  work->slice_sequences->Observe(3);
  work->slice_sequences->Observe(6);
  const std::string json = StatusJson(metrics.Collect(), true);
  EXPECT_THAT(json, HasSubstr(R"("ready":true)"));
  EXPECT_THAT(json, HasSubstr(R"("errors":1.0,"method":"Infer")"));
  EXPECT_THAT(json, HasSubstr(R"("requests":2.0)"));
  EXPECT_THAT(json, HasSubstr(R"("mean_sequences":4.5)"));
  EXPECT_THAT(json, HasSubstr("\"vad \xEF\xBF\xBD\""));
  EXPECT_THAT(json, Not(HasSubstr("sessions")));
}

TEST(StatusJson, ShowsRefusedFiles) {
  const std::string json = StatusJson({}, true, {}, {.count = 200, .first = {{"vad/1/model.onnx", "is \"cut off\""}}});
  EXPECT_THAT(
      json,
      HasSubstr(R"("refused_files":{"count":200,"first":[{"path":"vad/1/model.onnx","reason":"is \"cut off\""}]})"));
}

}  // namespace
}  // namespace rnnserve
