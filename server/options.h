// SPDX-License-Identifier: Apache-2.0
// What the flags say to each part of the server.
#pragma once

#include "server/admission/memory_watch.h"
#include "server/api/grpc_server.h"
#include "server/batching/batch_queue.h"
#include "server/batching/cellular_scheduler.h"
#include "server/core/core.h"
#include "server/plugins/loaded_plugins.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/execution/session_core.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/session_metrics.h"

namespace rnnserve {

// Threads that run engines: as many as the flag says, or one for each CPU that the process may use and those that
// devices want.
int Workers(const LoadedPlugins& plugins);

// `memory` of these: null without a limit.
GrpcServer::Options ServerOptions(Metrics& metrics, CellularScheduler& scheduler, MemoryWatch* memory);
BatchQueue::Options QueueOptions(int workers);
Core::Options CoreOptions(MemoryWatch* memory);
MemorySessions::Options SessionLimits(SessionMetrics& metrics, MemoryWatch* memory);
ModelStore::Options ModelOptions();
SessionCore::Options SessionOptions(SessionMetrics& metrics);
LoadedPlugins::Options PluginOptions();

}  // namespace rnnserve
