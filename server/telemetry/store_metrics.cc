// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/store_metrics.h"

#include <string>

namespace rnnserve {
namespace {

using Code = absl::StatusCode;

struct Operation {
  std::string name;
  std::map<Code, std::string> results;  // all that the seam of stores may answer
};
const std::map<Code, std::string> kReadResults = {{Code::kOk, "ok"},
                                                  {Code::kNotFound, "not_found"},
                                                  {Code::kFailedPrecondition, "failed_precondition"},
                                                  {Code::kResourceExhausted, "resource_exhausted"},
                                                  {Code::kUnavailable, "unavailable"}};
const std::map<StoreOperation, Operation> kOperations = {
    {StoreOperation::kWrite,
     {"write",
      {{Code::kOk, "ok"},
       {Code::kAborted, "aborted"},
       {Code::kFailedPrecondition, "failed_precondition"},
       {Code::kResourceExhausted, "resource_exhausted"},
       {Code::kUnavailable, "unavailable"}}}},
    {StoreOperation::kTake, {"take", kReadResults}},
    {StoreOperation::kRead, {"read", kReadResults}},
};

}  // namespace

StoreMetrics::StoreMetrics(Metrics& metrics)
    : StoreMetrics(metrics, metrics.Counters("rnnserve_store_bytes_total", "Bytes exchanged with the session store.",
                                             {"direction"})) {}

StoreMetrics::StoreMetrics(Metrics& metrics, CounterFamily& bytes)
    : sent(bytes.With({"sent"})),
      received(bytes.With({"received"})),
      reachable(metrics.Gauges("rnnserve_store_reachable", "1 while the session store answers.").With({})),
      queued(metrics.Gauges("rnnserve_store_queued", "Requests to the session store without an answer.").With({})) {
  CounterFamily& operations = metrics.Counters("rnnserve_store_operations_total",
                                               "Requests to the session store, answered.", {"operation", "result"});
  HistogramFamily& durations = metrics.Durations(
      "rnnserve_store_duration_seconds", "Time of a request to the session store, with its retries.", {"operation"});
  for (const auto& [operation, known] : kOperations) {
    durations_[operation] = durations.With({known.name});
    for (const auto& [code, result] : known.results)
      operations_[{operation, code}] = operations.With({known.name, result});
  }
}

void StoreMetrics::Count(StoreOperation operation, absl::StatusCode result, absl::Duration took) {
  const auto counter = operations_.find({operation, result});
  if (counter != operations_.end()) counter->second->Add();
  durations_.at(operation)->Observe(took);
}

}  // namespace rnnserve
