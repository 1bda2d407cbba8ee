// SPDX-License-Identifier: Apache-2.0
#include "server/config/cpu_limit.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/config/flags.h"

namespace rnnserve {
namespace {

// Microseconds of CPU time in so many of time. "max" and -1 are no quota.
std::optional<double> Quota(const std::string& quota, const std::string& period) {
  int64_t of_cpus = 0;
  int64_t of_time = 0;
  if (!absl::SimpleAtoi(quota, &of_cpus) || !absl::SimpleAtoi(period, &of_time)) return std::nullopt;
  if (of_cpus <= 0 || of_time <= 0) return std::nullopt;
  return static_cast<double>(of_cpus) / static_cast<double>(of_time);
}

std::string Word(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

std::optional<double> QuotaOfVersion1(const std::filesystem::path& group) {
  return Quota(Word(group / "cpu.cfs_quota_us"), Word(group / "cpu.cfs_period_us"));
}

std::optional<double> QuotaOfVersion2(const std::filesystem::path& group) {
  std::string quota;
  std::string period;
  std::ifstream(group / "cpu.max") >> quota >> period;
  return Quota(quota, period);
}

// CPUs that this process may run on (taskset, cpusets); a mask grows until it has room for those of the machine.
int AllowedCpus() {
  for (int most = CPU_SETSIZE; most <= (1 << 20); most *= 2) {
    std::vector<cpu_set_t> mask(static_cast<size_t>(most) / CPU_SETSIZE);
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> CpuQuotaOf(const ControlGroups& groups) {
  std::optional<double> least;
  const auto take = [&](std::optional<double> quota) {
    if (quota && (!least || *quota < *least)) least = quota;
  };
  for (const std::filesystem::path& group : groups.version_1) take(QuotaOfVersion1(group));
  for (const std::filesystem::path& group : groups.version_2) take(QuotaOfVersion2(group));
  return least;
}

Cpus CpusFor(int allowed, std::optional<double> quota) {
  allowed = std::max(allowed, 1);
  if (quota && *quota < allowed) {
    return {std::max(static_cast<int>(std::ceil(*quota)), 1),
            absl::StrCat("the container's quota of ", *quota, " CPUs")};
  }
  return {allowed, "the CPUs that the process may run on"};
}

const Cpus& AvailableCpus() {
  static const Cpus cpus = CpusFor(AllowedCpus(), CpuQuotaOf(OwnGroups("cpu")));
  return cpus;
}

void ShowCpus(Settings& settings) {
  if (absl::GetFlag(FLAGS_workers) != 0) return;
  settings.SetMeaning("workers",
                      absl::StrCat(AvailableCpus().count, ", ", AvailableCpus().reason,
                                   absl::GetFlag(FLAGS_plugin).empty() ? "" : ", and those that plugins want"));
}

}  // namespace rnnserve
