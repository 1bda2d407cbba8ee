// SPDX-License-Identifier: Apache-2.0
#include "base/seen_cpu.h"

#include <sched.h>

namespace rnnserve {

void SeenCpu::Note() {
  const int cpu = sched_getcpu();
  if (cpu_.load(std::memory_order_relaxed) != cpu) cpu_.store(cpu, std::memory_order_relaxed);
}

bool SeenCpu::KeepOff() const {
  const int cpu = cpu_.load(std::memory_order_relaxed);
  if (cpu < 0 || cpu != sched_getcpu()) return false;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;  // more CPUs than the set holds
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return false;
  sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

}  // namespace rnnserve
