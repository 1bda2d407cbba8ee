// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/session_metrics.h"

#include "server/telemetry/work_metrics.h"

namespace rnnserve {
namespace {

// A model has six series in a family: one for each event.
constexpr size_t kMaxModels = kMaxSeries / 6;

}  // namespace

SessionMetrics::SessionMetrics(Metrics& metrics)
    : active_(metrics.Gauges("rnnserve_sessions_active", "Live sessions.", {"model"})),
      state_bytes_(metrics.Gauges("rnnserve_session_state_bytes",
                                  "Bytes of the states and checkpoints of live sessions.", {"model"})),
      events_(metrics.Counters("rnnserve_sessions_total", "What happened to sessions.", {"model", "event"})),
      repeated_(metrics.Counters("rnnserve_operations_repeated_total",
                                 "Operations that came again and were answered without computing them again.",
                                 {"model"})),
      inline_(Of(kInlineModel)),
      unknown_(Of(kUnknownModel)) {}

SessionCountersPtr SessionMetrics::Of(std::string_view model) {
  const std::lock_guard lock(mutex_);
  if (const auto found = models_.find(model); found != models_.end()) return found->second;
  if (models_.size() >= kMaxModels)
    std::erase_if(models_, [](const auto& entry) { return entry.second.use_count() == 1; });
  SessionCountersPtr counters = Make(std::string(model));
  if (models_.size() < kMaxModels) models_.emplace(model, counters);
  return counters;
}

SessionCountersPtr SessionMetrics::Make(const std::string& model) {
  const auto event = [&](const char* what) { return events_.With({model, what}); };
  return std::make_shared<const SessionCounters>(SessionCounters{
      .active = active_.With({model}),
      .state_bytes = state_bytes_.With({model}),
      .opened = event("opened"),
      .closed = event("closed"),
      .expired = event("expired"),
      .refused = event("refused"),
      .resumed = event("resumed"),
      .lost = event("lost"),
      .repeated = repeated_.With({model}),
  });
}

}  // namespace rnnserve
