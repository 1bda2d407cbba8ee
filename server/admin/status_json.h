// SPDX-License-Identifier: Apache-2.0
// What the status page shows, made from the same readings as /metrics.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "server/admin/status_history.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

// A file of the repository folder that could not be loaded.
struct RefusedFile {
  std::string path;    // below that folder
  std::string reason;  // what is wrong and how to mend it
};

struct RefusedFiles {
  static constexpr size_t kMostShown = 100;
  size_t count = 0;                // of all
  std::vector<RefusedFile> first;  // kMostShown at most
};

// What is not among the metrics.
struct StatusParts {
  bool is_ready = false;
  std::vector<LoggedProblem> problems = {};
  RefusedFiles refused_files = {};
  std::vector<StatusHistory::Point> history = {};
};

// {"ready": true, "version": ..., "uptime_seconds": ..., "now": {gauges without labels}, "rejected": {reason: count},
//  "methods": [{"method", OUTCOMES, "p50_ms", "p99_ms"}],
//  "models": [{"model", "versions": [...], OUTCOMES, "p50_ms", "p99_ms", "queue_p99_ms", "sessions",
//              "session_state_bytes"}], of a model without series of its own only the first two,
//  "engines": [{"engine", "in_service", "packed_weight_bytes"}],
//  "work": [{"model", "engine", "slices", "mean_sequences", "mean_steps", "compute_p50_ms", "compute_p99_ms"}],
//  "errors": [{"time", "level", "text"}],
//  "refused_files": {"count": of all, "first": [{"path", "reason"}]},
//  "history": {"step_seconds", "requests_per_second": [...], "sessions": [...], "sequences_per_slice": [... or null],
//              "p99_ms": [... or null]}}, the oldest first.
// OUTCOMES: "requests", and of these "cancelled" (by their callers), "refused" and "failed" (by the server's fault).
// What is not measured by this server is left out.
std::string StatusJson(std::span<const MetricReading> readings, const StatusParts& parts);

}  // namespace rnnserve
