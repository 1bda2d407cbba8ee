// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/model_calls.h"

#include <set>
#include <utility>

namespace rnnserve {

ModelCalls::ModelCalls(Metrics& metrics, ModelLabels& labels)
    : labels_(labels),
      requests_(metrics.Counters("rnnserve_model_requests_total",
                                 "Infer calls, Opens and operations of sessions answered, by model and gRPC code.",
                                 {"model", "code"})),
      durations_(metrics.Durations("rnnserve_model_request_duration_seconds",
                                   "From the arrival of a model's request until its answer is handed to the transport.",
                                   {"model"})) {}

const CallMetrics& ModelCalls::Of(std::string_view model) {
  const std::string_view label = labels_.Of(model);
  const MutexLock lock(mutex_);
  if (const auto found = by_label_.find(label); found != by_label_.end()) return *found->second;
  std::string owned(label);
  auto calls = std::make_unique<const CallMetrics>(requests_, &durations_, owned);
  return *by_label_.emplace(std::move(owned), std::move(calls)).first->second;
}

void ModelCalls::SetKnown(const std::vector<std::string>& models) {
  std::set<std::vector<std::string>> known;
  for (const std::string& model : models) known.insert({model, "OK"});
  requests_.SetKnown(std::move(known));
}

}  // namespace rnnserve
