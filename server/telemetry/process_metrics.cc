// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace rnnserve {
namespace {

// Field `number` of /proc/self/stat as proc(5) counts them, from 3 on; -1 if it cannot be read.
double Stat(size_t number) {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // The second field, the program's name, is in parentheses and may hold anything.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return -1;
  std::istringstream rest(text.substr(end + 1));
  std::string field;
  for (size_t k = 3; k <= number; ++k) rest >> field;
  return rest ? std::stod(field) : -1;
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double OpenFds() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count > 0 ? count - 1 : 0;  // one is the folder's own
}

double MaxFds() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

double BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  double seconds = 0;
  while (file >> word) {
    if (word == "btime") file >> seconds;
  }
  return seconds;
}

}  // namespace

void AddProcessMetrics(Metrics& metrics) {
  metrics.CounterFunction("process_cpu_seconds_total", "User and system CPU time spent, in seconds.", CpuSeconds);
  metrics.GaugeFunction("process_resident_memory_bytes", "Resident memory.",
                        [] { return Stat(24) * static_cast<double>(sysconf(_SC_PAGESIZE)); });
  metrics.GaugeFunction("process_virtual_memory_bytes", "Virtual memory.", [] { return Stat(23); });
  metrics.GaugeFunction("process_open_fds", "Open file descriptors.", OpenFds);
  metrics.GaugeFunction("process_max_fds", "File descriptors that may be open at once.", MaxFds);
  const double start = BootTime() + Stat(22) / static_cast<double>(sysconf(_SC_CLK_TCK));
  metrics.GaugeFunction("process_start_time_seconds", "When the process began, in seconds since 1970.",
                        [start] { return start; });
}

void AddBuildInfo(Metrics& metrics, const std::string& version) {
  metrics.GaugeFunction("rnnserve_build_info", "Always 1; its label says what runs.", {"version"}, [version] {
    return std::vector<MetricSample>{{{version}, 1}};
  });
}

}  // namespace rnnserve
