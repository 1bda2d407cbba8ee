// SPDX-License-Identifier: Apache-2.0
// The registry of what is counted: families of metrics by name and labels, read by the admin port.
//
//   Metrics metrics;
//   CounterFamily& requests = metrics.Counters("rnnserve_requests_total", "Calls answered.", {"method", "code"});
//   std::shared_ptr<Counter> ok = requests.With({"Infer", "OK"});     // once
//   ok->Add();                                                         // any number of times
//   metrics.GaugeFunction("rnnserve_queue_bytes", "...", [&] { return queue.bytes(); });
//
// A series stays until the process ends. A counter or gauge shows as 0 from With on, or before that if its labels are
// known (MetricFamily::SetKnown); a histogram, 17 to 26 lines, from its first observation on. Label values come
// from tables and from ModelLabels (model_labels.h), which bounds them, never from a request's free text.
//
// Thread-safe. The registry outlives the objects that count; what a function reads outlives the last Collect.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "server/telemetry/metric.h"

namespace rnnserve {

enum class MetricKind { kCounter, kGauge, kHistogram };

// One series as it is now.
struct MetricSample {
  std::vector<std::string> labels;   // values, in the order of the family's label names
  double value = 0;                  // counter, gauge; of a histogram the sum
  std::vector<int64_t> counts = {};  // of a histogram: each bucket alone
};

// One family as it is now.
struct MetricReading {
  std::string name;
  std::string help;
  MetricKind kind = MetricKind::kGauge;
  std::vector<std::string> label_names = {};
  std::vector<double> bounds = {};  // of a histogram, in its unit
  std::vector<MetricSample> samples = {};
};

template <typename Metric>
class MetricFamily {
 public:
  // `divisor`: from the metric's whole numbers to the unit of its name.
  MetricFamily(MetricReading description, double divisor, std::function<std::shared_ptr<Metric>()> make)
      : description_(std::move(description)), divisor_(divisor), make_(std::move(make)) {}

  // The metric of these label values; the same one each time. Takes a lock: keep the pointer.
  std::shared_ptr<Metric> With(std::vector<std::string> labels);

  // Label sets that Read shows as 0 until With is called for them. Replaces the last sets. Not for histograms.
  void SetKnown(std::set<std::vector<std::string>> known);

  MetricReading Read() const;

 private:
  const MetricReading description_;  // without samples
  const double divisor_;
  const std::function<std::shared_ptr<Metric>()> make_;
  mutable Mutex mutex_;
  std::map<std::vector<std::string>, std::shared_ptr<Metric>> series_ ABSL_GUARDED_BY(mutex_);
  std::set<std::vector<std::string>> known_ ABSL_GUARDED_BY(mutex_);
};

using CounterFamily = MetricFamily<Counter>;
using GaugeFamily = MetricFamily<Gauge>;
using HistogramFamily = MetricFamily<Histogram>;

extern template class MetricFamily<Counter>;
extern template class MetricFamily<Gauge>;
extern template class MetricFamily<Histogram>;

class Metrics {
 public:
  // Each name once. References live as long as the registry.
  CounterFamily& Counters(std::string name, std::string help, std::vector<std::string> label_names = {});
  GaugeFamily& Gauges(std::string name, std::string help, std::vector<std::string> label_names = {});
  // In seconds, observed as durations.
  HistogramFamily& Durations(std::string name, std::string help, std::vector<std::string> label_names = {});
  // In whole numbers.
  HistogramFamily& Sizes(std::string name, std::string help, std::vector<std::string> label_names = {});

  // Asked at each Collect, on its thread; must not take long.
  using Reader = std::function<std::vector<MetricSample>()>;
  void GaugeFunction(std::string name, std::string help, std::function<double()> read);
  void GaugeFunction(std::string name, std::string help, std::vector<std::string> label_names, Reader read);
  void CounterFunction(std::string name, std::string help, std::function<double()> read);

  // Called when a Collect begins, on its thread; must not take long.
  void BeforeCollect(std::function<void()> prepare);

  // One family, without preparations; without samples if there is none of that name.
  MetricReading Read(std::string_view name) const;

  // All families by name, those without a series too.
  std::vector<MetricReading> Collect() const;

 private:
  template <typename Metric>
  MetricFamily<Metric>& Add(MetricReading description, double divisor, std::function<std::shared_ptr<Metric>()> make);
  void AddReader(MetricReading description, Reader read);

  mutable Mutex mutex_;
  std::map<std::string, std::function<MetricReading()>, std::less<>> families_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> preparations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<void>> owned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve
