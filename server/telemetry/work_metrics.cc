// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/work_metrics.h"

namespace rnnserve {

WorkMetricsTable::WorkMetricsTable(Metrics& metrics, ModelLabels& labels)
    : labels_(labels),
      queue_duration_(metrics.Durations("rnnserve_queue_duration_seconds",
                                        "Time a request waits before its first sequence runs.", {"model"})),
      compute_duration_(metrics.Durations("rnnserve_compute_duration_seconds",
                                          "Time a request's sequences spend in the engine.", {"model", "engine"})),
      slices_(metrics.Counters("rnnserve_slices_total", "Slices run.", {"model", "engine"})),
      slice_sequences_(
          metrics.Sizes("rnnserve_slice_sequences", "Sequences that run together in a slice.", {"model", "engine"})),
      slice_steps_(metrics.Sizes("rnnserve_slice_steps", "Steps of a slice's longest sequence.", {"model", "engine"})),
      steps_(metrics.Counters("rnnserve_sequence_steps_total",
                              "Steps computed, summed over sequences: useful ones, and those of padding.",
                              {"model", "kind"})),
      nonfinite_outputs_(metrics.Counters("rnnserve_nonfinite_outputs_total",
                                          "Replies with a NaN or an infinity among their outputs.", {"model"})) {}

std::shared_ptr<const WorkMetrics> WorkMetricsTable::Of(std::string_view model, std::string_view engine) {
  const std::string_view label = labels_.Of(model);
  const MutexLock lock(mutex_);
  if (const auto found = by_label_.find(label); found != by_label_.end()) {
    if (const auto known = found->second.find(engine); known != found->second.end()) return known->second;
  }
  std::shared_ptr<const WorkMetrics> work = Make(std::string(label), std::string(engine));
  by_label_[std::string(label)][std::string(engine)] = work;
  return work;
}

std::shared_ptr<const WorkMetrics> WorkMetricsTable::Make(const std::string& label, const std::string& engine) {
  return std::make_shared<const WorkMetrics>(WorkMetrics{
      .queue_duration = queue_duration_.With({label}),
      .compute_duration = compute_duration_.With({label, engine}),
      .slices = slices_.With({label, engine}),
      .slice_sequences = slice_sequences_.With({label, engine}),
      .slice_steps = slice_steps_.With({label, engine}),
      .useful_steps = steps_.With({label, "useful"}),
      .padding_steps = steps_.With({label, "padding"}),
      .nonfinite_outputs = nonfinite_outputs_.With({label}),
  });
}

}  // namespace rnnserve
