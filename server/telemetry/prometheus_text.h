// SPDX-License-Identifier: Apache-2.0
// What Prometheus reads: text format 0.0.4. The one place that knows prometheus-cpp.
#pragma once

#include <span>
#include <string>

#include "server/telemetry/metrics.h"

namespace rnnserve {

std::string PrometheusText(std::span<const MetricReading> readings);

}  // namespace rnnserve
