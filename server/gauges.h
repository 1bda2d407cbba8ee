// SPDX-License-Identifier: Apache-2.0
// Metrics that are read off the parts of the server when somebody asks for them.
#pragma once

#include "server/batching/scheduler.h"
#include "server/models/model_store.h"
#include "server/models/program_cache.h"
#include "server/sessions/memory_sessions.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

// All outlive the last Collect.
void AddGauges(const ModelStore& models, const ProgramCache& programs, const Scheduler& scheduler,
               const MemorySessions& sessions, Metrics& metrics);

}  // namespace rnnserve
