// SPDX-License-Identifier: Apache-2.0
// How busy the server was in the last minutes, so that a status page that has just been opened shows it: what a few
// metrics did between looks, the last ten minutes of it.
//
//   StatusHistory history(&metrics);
//   history.Record(SteadyNow());   // every kStep
//   history.Points();
//
// Record is called by one thread, Points by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

class StatusHistory {
 public:
  static constexpr absl::Duration kStep = absl::Seconds(5);
  static constexpr size_t kMostPoints = 120;

  // What was measured between two looks.
  struct Point {
    double requests_per_second = 0;             // of models
    double sessions = 0;                        // at its end
    std::optional<double> sequences_per_slice;  // mean; nothing: no slice ran
    std::optional<double> p99_ms;               // of requests; nothing: none came
  };

  // `metrics` outlives it.
  explicit StatusHistory(const Metrics* metrics) : metrics_(metrics) {}

  void Record(absl::Time now);
  // The oldest first.
  std::vector<Point> Points() const;

 private:
  struct Sums {
    absl::Time time;
    double requests = 0;
    double slices = 0;
    double sequences = 0;
    std::vector<int64_t> durations;  // requests by bucket
  };

  const Metrics* const metrics_;
  std::optional<Sums> before_;
  mutable Mutex mutex_;
  std::deque<Point> points_ ABSL_GUARDED_BY(mutex_);
};

// Looks every StatusHistory::kStep, on a thread of its own.
class StatusRecorder {
 public:
  explicit StatusRecorder(const Metrics* metrics) : history_(metrics), thread_([this] { Record(); }) {}
  ~StatusRecorder();

  const StatusHistory& history() const { return history_; }

 private:
  void Record();

  StatusHistory history_;
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
