// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/metrics.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/rejection.h"
#include "server/telemetry/model_calls.h"
#include "server/telemetry/process_metrics.h"
#include "server/telemetry/prometheus_text.h"
#include "server/telemetry/request_metrics.h"
#include "server/telemetry/session_metrics.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Text(const Metrics& metrics) { return PrometheusText(metrics.Collect()); }

TEST(Metrics, CountersGaugesAndHistogramsAsText) {
  Metrics metrics;
  metrics.Counters("a_total", "How many.", {"kind"}).With({"x \"y\"\n"})->Add(3);
  metrics.Gauges("b", "Now.").With({})->Set(-2);
  const std::shared_ptr<Histogram> waits = metrics.Durations("c_seconds", "How long.").With({});
  waits->Observe(absl::Microseconds(50));  // at most 50 us
  waits->Observe(absl::Microseconds(51));  // the next bucket
  waits->Observe(absl::Seconds(20));       // above all
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("# TYPE a_total counter\na_total{kind=\"x \\\"y\\\"\\n\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("# HELP b Now.\n# TYPE b gauge\nb -2\n"));
  EXPECT_THAT(text, HasSubstr("c_seconds_bucket{le=\"5e-05\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("} 2\nc_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("c_seconds_count 3\n"));
  EXPECT_THAT(text, HasSubstr("c_seconds_sum 20.0001"));
}

TEST(Metrics, LatencyBoundsGoFrom50UsTo10SByAbout1Point8) {
  const std::span<const int64_t> bounds = LatencyBounds();
  EXPECT_EQ(bounds.front(), 50'000);
  EXPECT_EQ(bounds.back(), 10'000'000'000);
  for (size_t k = 1; k < bounds.size(); ++k) {
    const double factor = static_cast<double>(bounds[k]) / static_cast<double>(bounds[k - 1]);
    EXPECT_GT(factor, 1.7) << k;
    EXPECT_LT(factor, 1.9) << k;
  }
}

TEST(Metrics, TheSameLabelsAreTheSameMetric) {
  Metrics metrics;
  CounterFamily& family = metrics.Counters("a_total", "How many.", {"k"});
  EXPECT_EQ(family.With({"1"}), family.With({"1"}));
  EXPECT_NE(family.With({"1"}), family.With({"2"}));
}

TEST(Metrics, AFunctionIsReadAtEachCollect) {
  Metrics metrics;
  double value = 1;
  metrics.GaugeFunction("a", "Now.", [&] { return value; });
  EXPECT_THAT(Text(metrics), HasSubstr("\na 1\n"));
  value = 2;
  EXPECT_THAT(Text(metrics), HasSubstr("\na 2\n"));
}

TEST(Metrics, AFamilyWithoutSeriesHasItsTypeAllTheSame) {
  Metrics metrics;
  metrics.Counters("a_total", "How many.", {"k"});
  EXPECT_EQ(Text(metrics), "# HELP a_total How many.\n# TYPE a_total counter\n");
}

TEST(Metrics, KnownLabelsAreShownAsZeroUntilTheyAreCounted) {
  Metrics metrics;
  CounterFamily& family = metrics.Counters("a_total", "How many.", {"k"});
  int collects = 0;
  metrics.BeforeCollect([&] {
    family.SetKnown(++collects < 3 ? std::set<std::vector<std::string>>{{"x"}, {"y"}}
                                   : std::set<std::vector<std::string>>{{"z"}});
  });
  EXPECT_THAT(Text(metrics), HasSubstr("a_total{k=\"x\"} 0\na_total{k=\"y\"} 0\n"));
  family.With({"x"})->Add(2);
  EXPECT_THAT(Text(metrics), HasSubstr("counter\na_total{k=\"x\"} 2\na_total{k=\"y\"} 0\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("counter\na_total{k=\"x\"} 2\na_total{k=\"z\"} 0\n")) << "what counts stays";
}

TEST(Metrics, HistogramsBeginWithTheirFirstObservation) {
  Metrics metrics;
  const auto x = metrics.Sizes("s", "How large.", {"k"}).With({"x"});
  EXPECT_EQ(Text(metrics), "# HELP s How large.\n# TYPE s histogram\n");
  x->Observe(0);
  EXPECT_THAT(Text(metrics), HasSubstr("s_count{k=\"x\"} 1\ns_sum{k=\"x\"} 0\n"));
}

TEST(Metrics, ManyThreadsLoseNothing) {
  Metrics metrics;
  CounterFamily& family = metrics.Counters("a_total", "How many.", {"k"});
  HistogramFamily& sizes = metrics.Sizes("s", "How large.");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const std::shared_ptr<Histogram> size = sizes.With({});
      for (int k = 0; k < 1000; ++k) {
        family.With({std::to_string(k % 3)})->Add();
        size->Observe(k % 10);
        if (k % 100 == 0) metrics.Collect();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  double sum = 0;
  for (const MetricSample& sample : family.Read().samples) sum += sample.value;
  EXPECT_EQ(sum, 4000);
  EXPECT_EQ(sizes.Read().samples[0].value, 4 * 100 * 45);
}

TEST(WorkMetrics, OneForEachModelAndEngine) {
  Metrics metrics;
  ModelLabels labels(2);
  WorkMetricsTable table(metrics, labels);
  const auto work = table.Of("vad", "cpu");
  EXPECT_EQ(work, table.Of("vad", "cpu"));
  const auto other = table.Of("vad", "onednn");
  EXPECT_NE(work, other);
  EXPECT_EQ(work->useful_steps, other->useful_steps) << "steps have no engine label";
  work->slices->Add();
  work->useful_steps->Add(12);
  EXPECT_THAT(Text(metrics), HasSubstr("rnnserve_slices_total{model=\"vad\",engine=\"cpu\"} 1\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("rnnserve_sequence_steps_total{model=\"vad\",kind=\"useful\"} 12\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("rnnserve_sequence_steps_total{model=\"vad\",kind=\"padding\"} 0\n"));
}

TEST(ModelLabels, TheFirstModelsHaveTheirOwn) {
  ModelLabels labels(2);
  EXPECT_EQ(labels.Of(kInlineModel), kInlineModel);
  EXPECT_EQ(labels.Of(kUnknownModel), kUnknownModel);
  EXPECT_EQ(labels.Of("a"), "a");
  EXPECT_EQ(labels.Of("b"), "b");
  EXPECT_EQ(labels.Of("c"), kOtherModels);
  EXPECT_EQ(labels.Of("a"), "a");
  EXPECT_EQ(labels.Of("c"), kOtherModels);
  EXPECT_EQ(ModelLabels(0).Of("a"), kOtherModels);
}

TEST(ModelLabels, PlacesAreKeptForTheModelsOfTheStart) {
  ModelLabels labels(3, {"x", "y"});
  EXPECT_EQ(labels.Of("a"), "a");
  EXPECT_EQ(labels.Of("b"), kOtherModels) << "the last two places are kept";
  EXPECT_EQ(labels.Of("y"), "y");
  EXPECT_EQ(labels.Of("b"), kOtherModels);
  EXPECT_EQ(labels.Of("x"), "x");
  EXPECT_EQ(labels.Of("c"), kOtherModels);

  ModelLabels few(1, {"x", "y"});
  EXPECT_EQ(few.Of("a"), kOtherModels);
  EXPECT_EQ(few.Of("y"), "y");
  EXPECT_EQ(few.Of("x"), kOtherModels);
}

TEST(ModelLabels, LoadedModelsHaveSeriesAsFarAsThereArePlaces) {
  using testing::ElementsAre;
  ModelLabels labels(3, {"x", "y"});
  const std::set<std::string> loaded = {"a", "b", "x", "y"};
  EXPECT_THAT(labels.Own(loaded), ElementsAre("a", "x", "y"));
  EXPECT_THAT(labels.Own({"b", "y"}), ElementsAre("b", "y"));
  labels.Of("b");
  EXPECT_THAT(labels.Own(loaded), ElementsAre("b", "x", "y")) << "being loaded takes no place";
  labels.Of("x");
  EXPECT_THAT(labels.Own(loaded), ElementsAre("b", "x", "y"));
  EXPECT_THAT(labels.Own({"a"}), ElementsAre());
  EXPECT_THAT(ModelLabels(0, {"x"}).Own(loaded), ElementsAre());
  EXPECT_THAT(ModelLabels(1, {"x", "y"}).Own(loaded), ElementsAre("x"));
}

TEST(ModelMetrics, TheSameModelsHaveSeriesOfWorkAndOfSessions) {
  Metrics metrics;
  ModelLabels labels(2);
  WorkMetricsTable work(metrics, labels);
  SessionMetrics sessions(metrics, labels);
  work.Of("a", "cpu")->slices->Add();
  sessions.Of("b")->opened->Add();
  for (const char* model : {"c", "d"}) {
    sessions.Of(model)->opened->Add(10);
    work.Of(model, "cpu")->slices->Add(10);
  }
  work.Of("b", "cpu")->slices->Add();
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("rnnserve_slices_total{model=\"a\",engine=\"cpu\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_slices_total{model=\"b\",engine=\"cpu\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_slices_total{model=\"(other)\",engine=\"cpu\"} 20\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_sessions_total{model=\"b\",event=\"opened\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_sessions_total{model=\"(other)\",event=\"opened\"} 20\n"));
  EXPECT_THAT(text, Not(HasSubstr("\"c\"")));
}

TEST(ModelMetrics, ModelsThatComeAndGoAreBoundedAndNoCounterGoesBack) {
  Metrics metrics;
  ModelLabels labels(8);
  WorkMetricsTable work(metrics, labels);
  SessionMetrics sessions(metrics, labels);
  for (int round = 1; round <= 3; ++round) {
    for (int k = 0; k < 500; ++k) {
      work.Of(std::to_string(k), "cpu")->slices->Add();
      sessions.Of(std::to_string(k))->closed->Add();
    }
    double slices = 0;
    for (const MetricReading& family : metrics.Collect()) {
      EXPECT_LE(family.samples.size(), 8 * (8 + 3)) << family.name;
      if (family.name != "rnnserve_slices_total") continue;
      for (const MetricSample& sample : family.samples) {
        EXPECT_GE(sample.value, round) << sample.labels[0];
        slices += sample.value;
      }
    }
    EXPECT_EQ(slices, 500 * round);
  }
}

TEST(ModelCalls, CountByModelAndCode) {
  Metrics metrics;
  ModelLabels labels(1);
  ModelCalls calls(metrics, labels);
  calls.SetKnown({"a", "b"});
  EXPECT_THAT(Text(metrics), HasSubstr("counter\nrnnserve_model_requests_total{model=\"a\",code=\"OK\"} 0\n"
                                       "rnnserve_model_requests_total{model=\"b\",code=\"OK\"} 0\n"));
  EXPECT_EQ(&calls.Of("a"), &calls.Of("a"));
  calls.Of("a").Record(absl::StatusCode::kNotFound, absl::Milliseconds(2));
  calls.Of("b").Record(absl::StatusCode::kOk, absl::Milliseconds(2));
  calls.Of("c").Record(absl::StatusCode::kOk, absl::Milliseconds(2));
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("rnnserve_model_requests_total{model=\"a\",code=\"NOT_FOUND\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_model_requests_total{model=\"a\",code=\"INTERNAL\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_model_requests_total{model=\"(other)\",code=\"OK\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_model_request_duration_seconds_count{model=\"a\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("\"c\"")));
}

TEST(RequestMetrics, KnownLabelsStartAtZero) {
  Metrics metrics;
  const RequestMetrics requests(metrics);
  const auto infer = requests.Method("Infer");
  infer->Record(absl::StatusCode::kOk, absl::Milliseconds(1));
  requests.RecordRejection(Rejection::kDraining);
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("rnnserve_requests_total{method=\"Infer\",code=\"OK\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_requests_total{method=\"Infer\",code=\"DATA_LOSS\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_rejected_total{reason=\"draining\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_rejected_total{reason=\"queue_full\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("rnnserve_request_duration_seconds_count{method=\"Infer\"} 1\n"));
}

TEST(Rejection, TravelsWithTheStatus) {
  EXPECT_EQ(RejectionOf(Overloaded(Rejection::kMemory, "no")), Rejection::kMemory);
  EXPECT_EQ(Overloaded(Rejection::kMemory, "no").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RejectionOf(WithRejection(absl::InvalidArgumentError("big"), Rejection::kTooLarge)), Rejection::kTooLarge);
  EXPECT_EQ(RejectionOf(absl::InvalidArgumentError("bad")), Rejection::kInvalid);
  EXPECT_EQ(RejectionOf(absl::UnavailableError("gone")), Rejection::kDraining);
  EXPECT_EQ(RejectionOf(absl::InternalError("ours")), std::nullopt);
  EXPECT_EQ(RejectionOf(absl::CancelledError("theirs")), std::nullopt);
}

TEST(ProcessMetrics, SayWhatTheSystemKnows) {
  Metrics metrics;
  AddProcessMetrics(metrics);
  AddBuildInfo(metrics, "1.2.3");
  for (const MetricReading& family : metrics.Collect()) EXPECT_GT(family.samples[0].value, 0) << family.name;
  EXPECT_THAT(Text(metrics), HasSubstr("rnnserve_build_info{version=\"1.2.3\"} 1\n"));
}

}  // namespace
}  // namespace rnnserve
