// SPDX-License-Identifier: Apache-2.0
// What is asked of each model: Infer calls, Opens, and operations of sessions, by the code of their answer.
//
//   ModelCalls calls(metrics, labels);                                   // one for the process
//   calls.Of("vad").Record(absl::StatusCode::kOk, absl::Milliseconds(2));
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/model_labels.h"
#include "server/telemetry/request_metrics.h"

namespace rnnserve {

class ModelCalls {
 public:
  // `labels` outlives this.
  ModelCalls(Metrics& metrics, ModelLabels& labels);

  // The same for all models without series of their own. Lives as long as this. Takes two locks, about 60 ns.
  const CallMetrics& Of(std::string_view model);

  // Labels of models that are shown without requests (code OK, 0) until they are called. All else that is counted of a
  // model begins with its first call, so that models without calls cost a scrape one line each.
  void SetKnown(const std::vector<std::string>& models);

 private:
  ModelLabels& labels_;
  CounterFamily& requests_;
  HistogramFamily& durations_;

  Mutex mutex_;
  std::map<std::string, std::unique_ptr<const CallMetrics>, std::less<>> by_label_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve
