// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/prometheus_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <utility>
#include <vector>

namespace rnnserve {
namespace {

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return prometheus::MetricType::Counter;
    case MetricKind::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram:
      break;
  }
  return prometheus::MetricType::Histogram;
}

prometheus::ClientMetric::Histogram ToHistogram(const MetricReading& family, const MetricSample& sample) {
  prometheus::ClientMetric::Histogram histogram;
  for (size_t k = 0; k < sample.counts.size(); ++k) {
    histogram.sample_count += static_cast<uint64_t>(sample.counts[k]);
    const double bound = k < family.bounds.size() ? family.bounds[k] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  histogram.sample_sum = sample.value;
  return histogram;
}

prometheus::ClientMetric ToMetric(const MetricReading& family, const MetricSample& sample) {
  prometheus::ClientMetric metric;
  for (size_t k = 0; k < sample.labels.size(); ++k) metric.label.push_back({family.label_names[k], sample.labels[k]});
  switch (family.kind) {
    case MetricKind::kCounter:
      metric.counter.value = sample.value;
      break;
    case MetricKind::kGauge:
      metric.gauge.value = sample.value;
      break;
    case MetricKind::kHistogram:
      metric.histogram = ToHistogram(family, sample);
      break;
  }
  return metric;
}

}  // namespace

std::string PrometheusText(std::span<const MetricReading> readings) {
  std::vector<prometheus::MetricFamily> families;
  families.reserve(readings.size());
  for (const MetricReading& reading : readings) {
    prometheus::MetricFamily family{reading.name, reading.help, TypeOf(reading.kind), {}};
    family.metric.reserve(reading.samples.size());
    for (const MetricSample& sample : reading.samples) family.metric.push_back(ToMetric(reading, sample));
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace rnnserve
