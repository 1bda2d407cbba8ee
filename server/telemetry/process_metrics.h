// SPDX-License-Identifier: Apache-2.0
// What the operating system says of this process, under the names Prometheus' own clients use, and what was built.
#pragma once

#include <string>

#include "server/telemetry/metrics.h"

namespace rnnserve {

// process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_open_fds,
// process_max_fds, process_start_time_seconds.
void AddProcessMetrics(Metrics& metrics);
// rnnserve_build_info{version}, always 1.
void AddBuildInfo(Metrics& metrics, const std::string& version);

}  // namespace rnnserve
