// SPDX-License-Identifier: Apache-2.0
// What is counted, under the names of Triton's metrics, for dashboards that know those.
#pragma once

#include <span>
#include <vector>

#include "server/telemetry/metrics.h"

namespace rnnserve {

// Counters by model, of those in `readings` that Triton has as well: requests and failures, executions, and the times
// of requests, in the queue and in the engine, in microseconds. Triton's label `version` is left out: versions count
// together.
std::vector<MetricReading> TritonMetrics(std::span<const MetricReading> readings);

}  // namespace rnnserve
