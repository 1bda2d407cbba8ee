// SPDX-License-Identifier: Apache-2.0
// How many CPUs the process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "server/config/control_groups.h"
#include "server/config/settings.h"

namespace rnnserve {

// CPU time a second that the least quota of these groups allows (cpu.max, cpu.cfs_quota_us), such as 1.5.
std::optional<double> CpuQuotaOf(const ControlGroups& groups);

struct Cpus {
  int count = 1;
  std::string reason;  // such as "the container's quota of 1.5 CPUs"
};

// The lesser of the CPUs that the process may run on and its quota, rounded up: a thread less would leave some of it.
Cpus CpusFor(int allowed, std::optional<double> quota);
// The CPUs that this process could use when it started.
const Cpus& AvailableCpus();

// Tells what --workers=0 stands for.
void ShowCpus(Settings& settings);

}  // namespace rnnserve
