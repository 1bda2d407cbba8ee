// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/session_metrics.h"

namespace rnnserve {
SessionMetrics::SessionMetrics(Metrics& metrics, ModelLabels& labels, ModelCalls* calls)
    : labels_(labels),
      calls_(calls),
      active_(metrics.Gauges("rnnserve_sessions_active", "Live sessions.", {"model"})),
      state_bytes_(metrics.Gauges("rnnserve_session_state_bytes",
                                  "Bytes of the states and checkpoints of live sessions.", {"model"})),
      events_(metrics.Counters("rnnserve_sessions_total", "What happened to sessions.", {"model", "event"})),
      repeated_(metrics.Counters("rnnserve_operations_repeated_total",
                                 "Operations that came again and were answered without computing them again.",
                                 {"model"})) {}

SessionCountersPtr SessionMetrics::Of(std::string_view model) {
  const std::string label(labels_.Of(model));
  const MutexLock lock(mutex_);
  SessionCountersPtr& counters = by_label_[label];
  if (counters == nullptr) counters = Make(label);
  return counters;
}

SessionCountersPtr SessionMetrics::Make(const std::string& label) {
  const auto event = [&](const char* what) { return events_.With({label, what}); };
  return std::make_shared<const SessionCounters>(SessionCounters{
      .active = active_.With({label}),
      .state_bytes = state_bytes_.With({label}),
      .opened = event("opened"),
      .closed = event("closed"),
      .expired = event("expired"),
      .moved = event("moved"),
      .taken_over = event("taken_over"),
      .refused = event("refused"),
      .resumed = event("resumed"),
      .lost = event("lost"),
      .repeated = repeated_.With({label}),
      .calls = calls_ == nullptr ? nullptr : &calls_->Of(label),
  });
}

}  // namespace rnnserve
