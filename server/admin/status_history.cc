// SPDX-License-Identifier: Apache-2.0
#include "server/admin/status_history.h"

#include <numeric>
#include <utility>

#include "base/steady_now.h"
#include "server/admin/readings.h"

namespace rnnserve {
namespace {

double SumOf(const MetricReading& reading) {
  double sum = 0;
  for (const MetricSample& sample : reading.samples) sum += sample.value;
  return sum;
}

// Of all series of a histogram together.
std::vector<int64_t> CountsOf(const MetricReading& reading) {
  std::vector<int64_t> counts(reading.bounds.size() + 1);
  for (const MetricSample& sample : reading.samples) {
    for (size_t k = 0; k < sample.counts.size(); ++k) counts[k] += sample.counts[k];
  }
  return counts;
}

int64_t Observations(const std::vector<int64_t>& counts) { return std::reduce(counts.begin(), counts.end()); }

}  // namespace

void StatusHistory::Record(absl::Time now) {
  const MetricReading durations = metrics_->Read("rnnserve_model_request_duration_seconds");
  const MetricReading batches = metrics_->Read("rnnserve_slice_sequences");
  Sums sums = {.time = now,
               .requests = SumOf(metrics_->Read("rnnserve_model_requests_total")),
               .slices = static_cast<double>(Observations(CountsOf(batches))),
               .sequences = SumOf(batches),
               .durations = CountsOf(durations)};
  const std::optional<Sums> before = std::exchange(before_, sums);
  if (!before || now <= before->time) return;
  Point point;
  point.requests_per_second = (sums.requests - before->requests) / absl::ToDoubleSeconds(now - before->time);
  point.sessions = SumOf(metrics_->Read("rnnserve_sessions_active"));
  if (sums.slices > before->slices) {
    point.sequences_per_slice = (sums.sequences - before->sequences) / (sums.slices - before->slices);
  }
  for (size_t k = 0; k < sums.durations.size(); ++k) sums.durations[k] -= before->durations[k];
  if (Observations(sums.durations) > 0) point.p99_ms = 1000 * Quantile(durations.bounds, sums.durations, 0.99);
  const MutexLock lock(mutex_);
  points_.push_back(point);
  if (points_.size() > kMostPoints) points_.pop_front();
}

std::vector<StatusHistory::Point> StatusHistory::Points() const {
  const MutexLock lock(mutex_);
  return {points_.begin(), points_.end()};
}

StatusRecorder::~StatusRecorder() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void StatusRecorder::Record() {
  MutexLock lock(mutex_);
  do {
    history_.Record(SteadyNow());
  } while (!stop_.wait_for(lock, absl::ToChronoMilliseconds(StatusHistory::kStep),
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; }));
}

}  // namespace rnnserve
