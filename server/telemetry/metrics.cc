// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/metrics.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace rnnserve {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

double Value(const Counter& counter) { return static_cast<double>(counter.value()); }
double Value(const Gauge& gauge) { return static_cast<double>(gauge.value()); }
double Value(const Histogram& histogram) { return static_cast<double>(histogram.sum()); }

template <typename Metric>
std::vector<int64_t> Counts(const Metric&) {
  return {};
}
template <>
std::vector<int64_t> Counts(const Histogram& histogram) {
  return histogram.counts();
}

}  // namespace

template <typename Metric>
std::shared_ptr<Metric> MetricFamily<Metric>::With(std::vector<std::string> labels) {
  assert(labels.size() == description_.label_names.size());
  const MutexLock lock(mutex_);
  std::shared_ptr<Metric>& metric = series_[std::move(labels)];
  if (metric == nullptr) metric = make_();
  return metric;
}

template <typename Metric>
void MetricFamily<Metric>::SetKnown(std::set<std::vector<std::string>> known) {
  const MutexLock lock(mutex_);
  known_ = std::move(known);
}

template <typename Metric>
MetricReading MetricFamily<Metric>::Read() const {
  MetricReading reading = description_;
  const MutexLock lock(mutex_);
  for (const auto& [labels, metric] : series_) {
    std::vector<int64_t> counts = Counts(*metric);
    if (!counts.empty() && std::ranges::all_of(counts, [](int64_t count) { return count == 0; })) continue;
    reading.samples.push_back({labels, Value(*metric) / divisor_, std::move(counts)});
  }
  for (const std::vector<std::string>& labels : known_) {
    if (!series_.contains(labels)) reading.samples.push_back({labels, 0});
  }
  return reading;
}

template class MetricFamily<Counter>;
template class MetricFamily<Gauge>;
template class MetricFamily<Histogram>;

template <typename Metric>
MetricFamily<Metric>& Metrics::Add(MetricReading description, double divisor,
                                   std::function<std::shared_ptr<Metric>()> make) {
  std::string name = description.name;
  auto family = std::make_shared<MetricFamily<Metric>>(std::move(description), divisor, std::move(make));
  const MutexLock lock(mutex_);
  [[maybe_unused]] const bool is_new = families_.emplace(name, [f = family.get()] { return f->Read(); }).second;
  assert(is_new && "two metrics of one name");
  owned_.push_back(family);
  return *family;
}

CounterFamily& Metrics::Counters(std::string name, std::string help, std::vector<std::string> label_names) {
  return Add<Counter>({std::move(name), std::move(help), MetricKind::kCounter, std::move(label_names)}, 1,
                      [] { return std::make_shared<Counter>(); });
}

GaugeFamily& Metrics::Gauges(std::string name, std::string help, std::vector<std::string> label_names) {
  return Add<Gauge>({std::move(name), std::move(help), MetricKind::kGauge, std::move(label_names)}, 1,
                    [] { return std::make_shared<Gauge>(); });
}

HistogramFamily& Metrics::Durations(std::string name, std::string help, std::vector<std::string> label_names) {
  MetricReading description = {std::move(name), std::move(help), MetricKind::kHistogram, std::move(label_names)};
  for (const int64_t bound : LatencyBounds()) {
    description.bounds.push_back(static_cast<double>(bound) / kNanosecondsPerSecond);
  }
  return Add<Histogram>(std::move(description), kNanosecondsPerSecond,
                        [] { return std::make_shared<Histogram>(LatencyBounds()); });
}

HistogramFamily& Metrics::Sizes(std::string name, std::string help, std::vector<std::string> label_names) {
  MetricReading description = {std::move(name), std::move(help), MetricKind::kHistogram, std::move(label_names)};
  for (const int64_t bound : SizeBounds()) description.bounds.push_back(static_cast<double>(bound));
  return Add<Histogram>(std::move(description), 1, [] { return std::make_shared<Histogram>(SizeBounds()); });
}

void Metrics::AddReader(MetricReading description, Reader read) {
  std::string name = description.name;
  const MutexLock lock(mutex_);
  [[maybe_unused]] const bool is_new = families_
                                           .emplace(std::move(name),
                                                    [description = std::move(description), read = std::move(read)] {
                                                      MetricReading reading = description;
                                                      reading.samples = read();
                                                      return reading;
                                                    })
                                           .second;
  assert(is_new && "two metrics of one name");
}

void Metrics::GaugeFunction(std::string name, std::string help, std::function<double()> read) {
  AddReader({std::move(name), std::move(help), MetricKind::kGauge}, [read = std::move(read)] {
    return std::vector<MetricSample>{{{}, read()}};
  });
}

void Metrics::GaugeFunction(std::string name, std::string help, std::vector<std::string> label_names, Reader read) {
  AddReader({std::move(name), std::move(help), MetricKind::kGauge, std::move(label_names)}, std::move(read));
}

void Metrics::CounterFunction(std::string name, std::string help, std::function<double()> read) {
  AddReader({std::move(name), std::move(help), MetricKind::kCounter}, [read = std::move(read)] {
    return std::vector<MetricSample>{{{}, read()}};
  });
}

void Metrics::BeforeCollect(std::function<void()> prepare) {
  const MutexLock lock(mutex_);
  preparations_.push_back(std::move(prepare));
}

MetricReading Metrics::Read(std::string_view name) const {
  std::function<MetricReading()> read;
  {
    const MutexLock lock(mutex_);
    if (const auto found = families_.find(name); found != families_.end()) read = found->second;
  }
  return read ? read() : MetricReading();
}

std::vector<MetricReading> Metrics::Collect() const {
  std::vector<std::function<void()>> preparations;
  std::vector<std::function<MetricReading()>> readers;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, read] : families_) readers.push_back(read);
    preparations = preparations_;
  }
  for (const auto& prepare : preparations) prepare();
  std::vector<MetricReading> readings;
  for (const auto& read : readers) readings.push_back(read());
  return readings;
}

}  // namespace rnnserve
