// SPDX-License-Identifier: Apache-2.0
// What the status page shows, made from the same readings as /metrics.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

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

// {"ready": true, "version": ..., "uptime_seconds": ..., "now": {gauges without labels},
//  "methods": [{"method", "requests", "errors", "p50_ms", "p99_ms"}], "rejected": {reason: count},
//  "loaded": [{"model", "version"}],
//  "work": [{"model", "engine", "slices", "mean_sequences", "mean_steps", "compute_p50_ms", "compute_p99_ms"}],
//  "errors": [{"time", "level", "text"}],
//  "sessions": [{"model", "active"}],
//  "refused_files": {"count": of all, "first": [{"path", "reason"}]}}
// What is not measured by this server is left out.
std::string StatusJson(std::span<const MetricReading> readings, bool is_ready,
                       std::span<const LoggedProblem> problems = {}, const RefusedFiles& refused_files = {});

// The value below which `quantile` of the observations lie, interpolated within its bucket as Prometheus does; above
// all bounds: the last bound. Without observations 0.
double Quantile(std::span<const double> bounds, std::span<const int64_t> counts, double quantile);

}  // namespace rnnserve
