// SPDX-License-Identifier: Apache-2.0
// Metrics that are read off the parts of the server when somebody asks for them.
#pragma once

#include <span>

#include "engine/engine.h"
#include "server/batching/scheduler.h"
#include "server/core/core.h"
#include "server/models/model_store.h"
#include "server/models/program_cache.h"
#include "server/sessions/memory_sessions.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/model_labels.h"
#include "server/telemetry/session_metrics.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {

// All outlive the last Collect.
void AddGauges(const ModelStore& models, const ProgramCache& programs, const Scheduler& scheduler,
               const MemorySessions& sessions, std::span<const Engine* const> engines, Metrics& metrics);

// From a model's loading on, its series are there as 0: with each engine that calls which name none may run on. So
// are those of what is no model, with all engines. `verifies`: whether there are runs to compare with.
void ShowKnownModels(Core& core, bool verifies, const ModelLabels& labels, WorkMetricsTable& work,
                     SessionMetrics& sessions, Metrics& metrics);

}  // namespace rnnserve
