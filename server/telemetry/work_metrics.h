// SPDX-License-Identifier: Apache-2.0
// What the core and the scheduler count of the work of one model on one engine.
//
//   WorkMetricsTable table(metrics, labels);                          // one for the process
//   std::shared_ptr<const WorkMetrics> work = table.Of("vad", "cpu"); // once a request, about 50 ns
//   work->slices->Add();
//
// A slice that holds sequences of several models (equal cells share slices) counts for the model of its first sequence;
// steps count for each sequence's own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/model_labels.h"

namespace rnnserve {

struct WorkMetrics {
  std::shared_ptr<Histogram> queue_duration;    // from Schedule to the first slice
  std::shared_ptr<Histogram> compute_duration;  // of a request, in the engine
  std::shared_ptr<Counter> slices;
  std::shared_ptr<Histogram> slice_sequences;  // sequences of a slice
  std::shared_ptr<Histogram> slice_steps;      // steps of a slice's longest sequence
  std::shared_ptr<Counter> useful_steps;       // summed over sequences
  std::shared_ptr<Counter> padding_steps;      // computed for nothing
  std::shared_ptr<Counter> nonfinite_outputs;  // replies that hold a NaN or an infinity
};

class WorkMetricsTable {
 public:
  // `labels` outlives this.
  WorkMetricsTable(Metrics& metrics, ModelLabels& labels);

  // The same for all models without series of their own.
  std::shared_ptr<const WorkMetrics> Of(std::string_view model, std::string_view engine);

 private:
  std::shared_ptr<const WorkMetrics> Make(const std::string& label, const std::string& engine);

  ModelLabels& labels_;
  HistogramFamily& queue_duration_;
  HistogramFamily& compute_duration_;
  CounterFamily& slices_;
  HistogramFamily& slice_sequences_;
  HistogramFamily& slice_steps_;
  CounterFamily& steps_;
  CounterFamily& nonfinite_outputs_;

  using ByEngine = std::map<std::string, std::shared_ptr<const WorkMetrics>, std::less<>>;
  Mutex mutex_;
  std::map<std::string, ByEngine, std::less<>> by_label_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve
