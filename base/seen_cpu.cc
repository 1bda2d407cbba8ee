// SPDX-License-Identifier: Apache-2.0
#include "base/seen_cpu.h"

#include <sched.h>

#include <cstring>

namespace rnnserve {

void SeenCpu::Note() {
  const int cpu = sched_getcpu();
  if (cpu_.load(std::memory_order_relaxed) != cpu) cpu_.store(cpu, std::memory_order_relaxed);
}

bool SeenCpu::IsHere() const {
  const int cpu = cpu_.load(std::memory_order_relaxed);
  return cpu >= 0 && cpu == sched_getcpu();
}

bool SeenCpu::KeepOff() const {
  const int cpu = cpu_.load(std::memory_order_relaxed);
  if (cpu < 0 || cpu != sched_getcpu()) return false;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;  // more CPUs than the set holds
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return false;
  // The kernel keeps a mask that was set, and a cpuset that grows does not widen it. All CPUs are no mask.
  cpu_set_t all, widest;
  std::memset(&all, 0xff, sizeof all);
  const bool had_none = sched_setaffinity(0, sizeof all, &all) == 0 &&
                        sched_getaffinity(0, sizeof widest, &widest) == 0 && CPU_EQUAL(&widest, &allowed);
  if (!had_none) sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

}  // namespace rnnserve
