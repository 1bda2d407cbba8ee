// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/triton_metrics.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

namespace rnnserve {
namespace {

enum class Answers { kAll, kOk, kFailed };

struct Source {
  const char* name;
  const char* help;
  std::string_view from;
  double factor = 1;
  Answers answers = Answers::kAll;  // by the label `code`, the second one
};

constexpr double kMicroseconds = 1e6;
constexpr Source kSources[] = {
    {"nv_inference_request_success", "Number of successful inference requests.", "rnnserve_model_requests_total", 1,
     Answers::kOk},
    {"nv_inference_request_failure", "Number of failed inference requests.", "rnnserve_model_requests_total", 1,
     Answers::kFailed},
    {"nv_inference_exec_count", "Number of model executions performed.", "rnnserve_slices_total"},
    {"nv_inference_request_duration_us", "Cumulative inference request duration in microseconds.",
     "rnnserve_model_request_duration_seconds", kMicroseconds},
    {"nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds.",
     "rnnserve_queue_duration_seconds", kMicroseconds},
    {"nv_inference_compute_infer_duration_us", "Cumulative compute inference duration in microseconds.",
     "rnnserve_compute_duration_seconds", kMicroseconds},
};

bool Counts(const Source& source, const MetricSample& sample) {
  if (source.answers == Answers::kAll) return true;
  return (sample.labels.at(1) == "OK") == (source.answers == Answers::kOk);
}

}  // namespace

std::vector<MetricReading> TritonMetrics(std::span<const MetricReading> readings) {
  std::vector<MetricReading> found;
  for (const Source& source : kSources) {
    const auto reading = std::ranges::find(readings, source.from, &MetricReading::name);
    if (reading == readings.end()) continue;
    std::map<std::string, double> by_model;
    for (const MetricSample& sample : reading->samples) {
      double& sum = by_model[sample.labels.at(0)];
      if (Counts(source, sample)) sum += source.factor * sample.value;
    }
    MetricReading& made = found.emplace_back();
    made.name = source.name;
    made.help = source.help;
    made.kind = MetricKind::kCounter;
    made.label_names = {"model"};
    for (const auto& [model, sum] : by_model) made.samples.push_back({.labels = {model}, .value = sum});
  }
  return found;
}

}  // namespace rnnserve
