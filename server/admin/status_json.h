// SPDX-License-Identifier: Apache-2.0
// What the status page shows, made from the same readings as /metrics.
#pragma once

#include <span>
#include <string>

#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

// {"ready": true, "version": ..., "uptime_seconds": ..., "now": {gauges without labels},
//  "methods": [{"method", "requests", "errors", "p50_ms", "p99_ms"}], "rejected": {reason: count},
//  "loaded": [{"model", "version"}],
//  "work": [{"model", "engine", "slices", "mean_sequences", "mean_steps", "compute_p50_ms", "compute_p99_ms"}],
//  "errors": [{"time", "level", "text"}],
//  "sessions": [{"model", "active"}]}
// What is not measured by this server is left out.
std::string StatusJson(std::span<const MetricReading> readings, bool is_ready,
                       std::span<const LoggedProblem> problems = {});

// The value below which `quantile` of the observations lie, interpolated within its bucket as Prometheus does; above
// all bounds: the last bound. Without observations 0.
double Quantile(std::span<const double> bounds, std::span<const int64_t> counts, double quantile);

}  // namespace rnnserve
