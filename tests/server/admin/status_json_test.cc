// SPDX-License-Identifier: Apache-2.0
#include "server/admin/status_json.h"

#include <gmock/gmock.h>

#include <vector>

#include "server/admin/readings.h"
#include "server/telemetry/model_calls.h"
#include "server/telemetry/request_metrics.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

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
  for (const auto code : {absl::StatusCode::kOk, absl::StatusCode::kInternal, absl::StatusCode::kNotFound,
                          absl::StatusCode::kInvalidArgument, absl::StatusCode::kCancelled}) {
    infer->Record(code, absl::Milliseconds(1));
  }
  ModelLabels labels(64);
  WorkMetricsTable table(metrics, labels);
  const auto work = table.Of("vad \xff", "cpu");  // a name that is no UTF-8
  work->slices->Add(2);
  work->slice_sequences->Observe(3);
  work->slice_sequences->Observe(6);
  const std::string json = StatusJson(metrics.Collect(), {.is_ready = true});
  EXPECT_THAT(json, HasSubstr(R"("ready":true)"));
  EXPECT_THAT(json, HasSubstr(R"({"cancelled":1.0,"failed":1.0,"method":"Infer",)"));
  EXPECT_THAT(json, HasSubstr(R"("refused":2.0,"requests":5.0})"));
  EXPECT_THAT(json, HasSubstr(R"("mean_sequences":4.5)"));
  EXPECT_THAT(json, HasSubstr("\"vad \xEF\xBF\xBD\""));
  EXPECT_THAT(json, HasSubstr(R"("models":[])"));
}

TEST(StatusJson, ShowsModelsThatAreLoadedAndThoseThatCount) {
  Metrics metrics;
  ModelLabels labels(1);
  ModelCalls calls(metrics, labels);
  metrics.GaugeFunction("rnnserve_model_loaded", "Loaded.", {"model", "version"}, [] {
    return std::vector<MetricSample>{{{"kws", "1"}, 1}, {{"vad", "1"}, 1}, {{"vad", "7"}, 1}};
  });
  calls.Of("vad").Record(absl::StatusCode::kUnknown, absl::Milliseconds(1));
  const std::string json = StatusJson(metrics.Collect(), {});
  EXPECT_THAT(json, HasSubstr(R"({"model":"kws","versions":["1"]})"));
  EXPECT_THAT(json, HasSubstr(R"({"cancelled":0.0,"failed":1.0,"model":"vad",)"));
  EXPECT_THAT(json, HasSubstr(R"("versions":["1","7"]})"));
}

TEST(StatusJson, ShowsRefusedFiles) {
  const RefusedFiles refused = {.count = 200, .first = {{"vad/1/model.onnx", "is \"cut off\""}}};
  const std::string json = StatusJson({}, {.refused_files = refused});
  EXPECT_THAT(
      json,
      HasSubstr(R"("refused_files":{"count":200,"first":[{"path":"vad/1/model.onnx","reason":"is \"cut off\""}]})"));
}

TEST(StatusJson, ShowsTheLastMinutes) {
  const std::vector<StatusHistory::Point> points = {
      {.requests_per_second = 0.5, .sessions = 2, .sequences_per_slice = {}, .p99_ms = {}},
      {.requests_per_second = 3, .sessions = 4, .sequences_per_slice = 1.5, .p99_ms = 7.5}};
  EXPECT_THAT(
      StatusJson({}, {.history = points}),
      HasSubstr(R"("history":{"p99_ms":[null,7.5],"requests_per_second":[0.5,3.0],"sequences_per_slice":[null,1.5],)"
                R"("sessions":[2.0,4.0],"step_seconds":5.0})"));
}

}  // namespace
}  // namespace rnnserve
