// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/request_metrics.h"

#include <algorithm>
#include <utility>

namespace rnnserve {

CallMetrics::CallMetrics(CounterFamily& requests, HistogramFamily* durations, std::string kind)
    : duration_(durations == nullptr ? nullptr : durations->With({kind})) {
  for (size_t code = 0; code < kCodes; ++code) {
    by_code_[code] = requests.With({kind, absl::StatusCodeToString(static_cast<absl::StatusCode>(code))});
  }
}

void CallMetrics::Record(absl::StatusCode code, absl::Duration duration) const {
  Ended(code);
  if (duration_ != nullptr) duration_->Observe(duration);
}

void CallMetrics::Ended(absl::StatusCode code) const {
  const auto index = static_cast<size_t>(code);
  by_code_[index < kCodes ? index : static_cast<size_t>(absl::StatusCode::kUnknown)]->Add();
}

RequestMetrics::RequestMetrics(Metrics& metrics)
    : requests_(
          metrics.Counters("rnnserve_requests_total", "Calls answered, by method and gRPC code.", {"method", "code"})),
      durations_(metrics.Durations("rnnserve_request_duration_seconds",
                                   "From a call's arrival until its answer is handed to the transport.", {"method"})),
      in_flight_(metrics.Gauges("rnnserve_requests_in_flight", "Calls being served.").With({})) {
  CounterFamily& rejected =
      metrics.Counters("rnnserve_rejected_total", "Calls and operations refused, by reason.", {"reason"});
  for (const std::string_view name : kRejectionNames) rejected_.push_back(rejected.With({std::string(name)}));
}

std::unique_ptr<CallMetrics> RequestMetrics::Method(std::string method) const {
  return std::make_unique<CallMetrics>(requests_, &durations_, std::move(method));
}

std::unique_ptr<CallMetrics> RequestMetrics::Untimed(std::string method) const {
  return std::make_unique<CallMetrics>(requests_, nullptr, std::move(method));
}

}  // namespace rnnserve
