// SPDX-License-Identifier: Apache-2.0
#include "server/admin/readings.h"

#include <numeric>

namespace rnnserve {

double Quantile(std::span<const double> bounds, std::span<const int64_t> counts, double quantile) {
  const int64_t all = std::reduce(counts.begin(), counts.end());
  if (all == 0) return 0;
  const double rank = quantile * static_cast<double>(all);
  int64_t below = 0;
  for (size_t k = 0; k < bounds.size(); ++k) {
    if (counts[k] > 0 && static_cast<double>(below + counts[k]) >= rank) {
      const double lower = k == 0 ? 0 : bounds[k - 1];
      const double part = (rank - static_cast<double>(below)) / static_cast<double>(counts[k]);
      return lower + (bounds[k] - lower) * part;
    }
    below += counts[k];
  }
  return bounds.empty() ? 0 : bounds.back();
}

Readings::Readings(std::span<const MetricReading> readings) {
  for (const MetricReading& reading : readings) by_name_[reading.name] = &reading;
}

const MetricReading* Readings::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::span<const MetricSample> Readings::Samples(std::string_view name) const {
  const MetricReading* reading = Find(name);
  return reading == nullptr ? std::span<const MetricSample>() : reading->samples;
}

const MetricSample* Readings::Sample(std::string_view name, const std::vector<std::string>& labels) const {
  for (const MetricSample& sample : Samples(name)) {
    if (sample.labels == labels) return &sample;
  }
  return nullptr;
}

double Readings::Value(std::string_view name, const std::vector<std::string>& labels) const {
  const MetricSample* sample = Sample(name, labels);
  return sample == nullptr ? 0 : sample->value;
}

double Readings::QuantileMs(std::string_view name, const std::vector<std::string>& labels, double quantile) const {
  const MetricSample* sample = Sample(name, labels);
  return sample == nullptr ? 0 : 1000 * Quantile(Find(name)->bounds, sample->counts, quantile);
}

double Readings::Mean(std::string_view name, const std::vector<std::string>& labels) const {
  const MetricSample* sample = Sample(name, labels);
  if (sample == nullptr) return 0;
  const int64_t count = std::reduce(sample->counts.begin(), sample->counts.end());
  return count == 0 ? 0 : sample->value / static_cast<double>(count);
}

}  // namespace rnnserve
