// SPDX-License-Identifier: Apache-2.0
// What has been read of the metrics at one moment, by name and labels.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/telemetry/metrics.h"

namespace rnnserve {

// The value below which `quantile` of the observations lie, interpolated within its bucket as Prometheus does; above
// all bounds: the last bound. Without observations 0.
double Quantile(std::span<const double> bounds, std::span<const int64_t> counts, double quantile);

// `readings` outlive it. What is not there is 0, and has no samples.
class Readings {
 public:
  explicit Readings(std::span<const MetricReading> readings);

  const MetricReading* Find(std::string_view name) const;
  std::span<const MetricSample> Samples(std::string_view name) const;
  const MetricSample* Sample(std::string_view name, const std::vector<std::string>& labels) const;
  double Value(std::string_view name, const std::vector<std::string>& labels = {}) const;
  // A quantile and the mean of a histogram, in milliseconds and in the histogram's unit.
  double QuantileMs(std::string_view name, const std::vector<std::string>& labels, double quantile) const;
  double Mean(std::string_view name, const std::vector<std::string>& labels) const;

 private:
  std::map<std::string_view, const MetricReading*> by_name_;
};

}  // namespace rnnserve
