// SPDX-License-Identifier: Apache-2.0
// What the dialects count of the calls they answer, by method.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/rejection.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

// Calls of one kind, such as of one method: by code, and how long they took.
class CallMetrics {
 public:
  // Under the label `kind`, and in `requests` under its code as well. `durations`: null where they say nothing.
  CallMetrics(CounterFamily& requests, HistogramFamily* durations, std::string kind);

  void Record(absl::StatusCode code, absl::Duration duration) const;
  // For streams, whose duration says nothing.
  void Ended(absl::StatusCode code) const;

 private:
  static constexpr size_t kCodes = 17;
  std::array<std::shared_ptr<Counter>, kCodes> by_code_;
  std::shared_ptr<Histogram> duration_;
};

class RequestMetrics {
 public:
  explicit RequestMetrics(Metrics& metrics);

  std::unique_ptr<CallMetrics> Method(std::string method) const;
  // For calls that take no time, or as long as their caller likes: only Ended counts them.
  std::unique_ptr<CallMetrics> Untimed(std::string method) const;

  // Calls, and operations of streams, that were refused.
  void RecordRejection(Rejection why) const { rejected_[static_cast<size_t>(why)]->Add(); }
  Gauge& in_flight() const { return *in_flight_; }

 private:
  CounterFamily& requests_;
  HistogramFamily& durations_;
  std::shared_ptr<Gauge> in_flight_;
  std::vector<std::shared_ptr<Counter>> rejected_;
};

}  // namespace rnnserve
