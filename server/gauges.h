// SPDX-License-Identifier: Apache-2.0
// Metrics that a scrape reads from the parts of the server.
#pragma once

#include <span>

#include "engine/engine.h"
#include "server/batching/scheduler.h"
#include "server/core/core.h"
#include "server/models/model_store.h"
#include "server/models/program_cache.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/model_calls.h"
#include "server/telemetry/model_labels.h"
#include "server/telemetry/session_metrics.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {

// All outlive the last Collect.
void AddGauges(const ModelStore& models, const ProgramCache& programs, const Scheduler& scheduler,
               const MemorySessions& sessions, std::span<const Engine* const> engines, Metrics& metrics);

// A loaded model shows one line from its loading on: no requests. (inline), (other) and (unknown) show all their
// counters and gauges from the start, as 0.
void ShowKnownModels(Core& core, const ModelLabels& labels, ModelCalls& calls, WorkMetricsTable& work,
                     SessionMetrics& sessions, Metrics& metrics);

}  // namespace rnnserve
