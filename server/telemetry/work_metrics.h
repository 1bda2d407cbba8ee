// SPDX-License-Identifier: Apache-2.0
// What the core and the scheduler count of the work of one model on one engine.
//
//   WorkMetricsTable table(metrics);                                  // one for the process
//   std::shared_ptr<const WorkMetrics> work = table.Of("vad", "cpu"); // once a request, about 50 ns
//   work->slices->Add();
//
// A slice that holds sequences of several models (equal cells share slices) counts for the model of its first sequence;
// steps count for each sequence's own.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "server/telemetry/metrics.h"

namespace rnnserve {

// The label of operators that come inline or by fingerprint: callers are not bounded.
inline constexpr std::string_view kInlineModel = "(inline)";

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
  explicit WorkMetricsTable(Metrics& metrics);

  std::shared_ptr<const WorkMetrics> Of(std::string_view model, std::string_view engine);

 private:
  std::shared_ptr<const WorkMetrics> Make(const std::string& model, const std::string& engine);

  HistogramFamily& queue_duration_;
  HistogramFamily& compute_duration_;
  CounterFamily& slices_;
  HistogramFamily& slice_sequences_;
  HistogramFamily& slice_steps_;
  CounterFamily& steps_;
  CounterFamily& nonfinite_outputs_;

  std::mutex mutex_;
  // Guarded by mutex_. Bounded like the series themselves.
  std::map<std::string, std::map<std::string, std::shared_ptr<const WorkMetrics>, std::less<>>, std::less<>> models_;
};

}  // namespace rnnserve
