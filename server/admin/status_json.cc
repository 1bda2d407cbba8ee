// SPDX-License-Identifier: Apache-2.0
#include "server/admin/status_json.h"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace rnnserve {
namespace {

using Json = nlohmann::json;

class Readings {
 public:
  explicit Readings(std::span<const MetricReading> readings) {
    for (const MetricReading& reading : readings) by_name_[reading.name] = &reading;
  }

  const MetricReading* Find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  // The first series' value.
  double Value(std::string_view name) const {
    const MetricReading* reading = Find(name);
    return reading == nullptr || reading->samples.empty() ? 0 : reading->samples[0].value;
  }
  std::span<const MetricSample> Samples(std::string_view name) const {
    const MetricReading* reading = Find(name);
    return reading == nullptr ? std::span<const MetricSample>() : reading->samples;
  }
  const MetricSample* Sample(std::string_view name, const std::vector<std::string>& labels) const {
    for (const MetricSample& sample : Samples(name)) {
      if (sample.labels == labels) return &sample;
    }
    return nullptr;
  }
  double QuantileMs(std::string_view name, const std::vector<std::string>& labels, double quantile) const {
    const MetricSample* sample = Sample(name, labels);
    return sample == nullptr ? 0 : 1000 * Quantile(Find(name)->bounds, sample->counts, quantile);
  }
  double Mean(std::string_view name, const std::vector<std::string>& labels) const {
    const MetricSample* sample = Sample(name, labels);
    if (sample == nullptr) return 0;
    const int64_t count = std::reduce(sample->counts.begin(), sample->counts.end());
    return count == 0 ? 0 : sample->value / static_cast<double>(count);
  }

 private:
  std::map<std::string_view, const MetricReading*> by_name_;
};

Json Methods(const Readings& readings) {
  std::map<std::string, std::pair<double, double>> counts;  // all, and what is not OK
  for (const MetricSample& sample : readings.Samples("rnnserve_requests_total")) {
    auto& [requests, errors] = counts[sample.labels[0]];
    requests += sample.value;
    if (sample.labels[1] != "OK") errors += sample.value;
  }
  Json methods = Json::array();
  for (const auto& [method, count] : counts) {
    methods.push_back({{"method", method},
                       {"requests", count.first},
                       {"errors", count.second},
                       {"p50_ms", readings.QuantileMs("rnnserve_request_duration_seconds", {method}, 0.5)},
                       {"p99_ms", readings.QuantileMs("rnnserve_request_duration_seconds", {method}, 0.99)}});
  }
  return methods;
}

Json Work(const Readings& readings) {
  Json work = Json::array();
  for (const MetricSample& slices : readings.Samples("rnnserve_slices_total")) {
    if (slices.value == 0) continue;
    work.push_back({{"model", slices.labels[0]},
                    {"engine", slices.labels[1]},
                    {"slices", slices.value},
                    {"mean_sequences", readings.Mean("rnnserve_slice_sequences", slices.labels)},
                    {"mean_steps", readings.Mean("rnnserve_slice_steps", slices.labels)},
                    {"compute_p50_ms", readings.QuantileMs("rnnserve_compute_duration_seconds", slices.labels, 0.5)},
                    {"compute_p99_ms", readings.QuantileMs("rnnserve_compute_duration_seconds", slices.labels, 0.99)}});
  }
  return work;
}

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

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

std::string StatusJson(std::span<const MetricReading> all, bool is_ready, std::span<const LoggedProblem> problems,
                       const RefusedFiles& refused_files) {
  const Readings readings(all);
  Json status = {{"ready", is_ready}, {"methods", Methods(readings)}, {"work", Work(readings)}};
  if (const MetricReading* build = readings.Find("rnnserve_build_info"))
    status["version"] = build->samples[0].labels[0];
  if (readings.Find("process_start_time_seconds") != nullptr) {
    status["uptime_seconds"] = SecondsSince1970() - readings.Value("process_start_time_seconds");
  }
  status["now"] = Json::object();
  for (const MetricReading& reading : all) {
    const bool is_plain = reading.kind == MetricKind::kGauge && reading.label_names.empty();
    if (is_plain) status["now"][reading.name] = reading.samples[0].value;
  }
  status["rejected"] = Json::object();
  for (const MetricSample& sample : readings.Samples("rnnserve_rejected_total")) {
    status["rejected"][sample.labels[0]] = sample.value;
  }
  status["errors"] = Json::array();
  for (const LoggedProblem& problem : problems) {
    status["errors"].push_back({{"time", problem.time}, {"level", problem.level}, {"text", problem.text}});
  }
  status["loaded"] = Json::array();
  for (const MetricSample& sample : readings.Samples("rnnserve_model_loaded")) {
    status["loaded"].push_back({{"model", sample.labels[0]}, {"version", sample.labels[1]}});
  }
  if (readings.Find("rnnserve_sessions_active") != nullptr) {
    status["sessions"] = Json::array();
    for (const MetricSample& sample : readings.Samples("rnnserve_sessions_active")) {
      status["sessions"].push_back({{"model", sample.labels[0]}, {"active", sample.value}});
    }
  }
  status["refused_files"] = {{"count", refused_files.count}, {"first", Json::array()}};
  for (const RefusedFile& file : refused_files.first) {
    status["refused_files"]["first"].push_back({{"path", file.path}, {"reason", file.reason}});
  }
  // Names of models may hold what is no UTF-8.
  return status.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rnnserve
