// SPDX-License-Identifier: Apache-2.0
#include "base/seen_cpu.h"

#include <sched.h>

#include <cstring>

namespace rnnserve {
namespace {

// Takes `cpu` out of the thread's mask, and gives the mask as it was. Null where nothing was done.
std::optional<cpu_set_t> Narrow(pthread_t thread, int cpu) {
  cpu_set_t before;
  if (cpu < 0 || pthread_getaffinity_np(thread, sizeof before, &before) != 0) return std::nullopt;  // or too many CPUs
  cpu_set_t others = before;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || pthread_setaffinity_np(thread, sizeof others, &others) != 0) return std::nullopt;
  return before;
}

}  // namespace

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
  const std::optional<cpu_set_t> before = cpu == sched_getcpu() ? Narrow(pthread_self(), cpu) : std::nullopt;
  if (before) Restore(*before);
  return before.has_value();
}

std::optional<cpu_set_t> SeenCpu::KeepOff(pthread_t asleep) const {
  return Narrow(asleep, cpu_.load(std::memory_order_relaxed));
}

// The kernel keeps a mask that was set, and a cpuset that grows does not widen it. All CPUs are no mask.
void SeenCpu::Restore(const cpu_set_t& before) {
  cpu_set_t all, widest;
  std::memset(&all, 0xff, sizeof all);
  const bool had_none = sched_setaffinity(0, sizeof all, &all) == 0 &&
                        sched_getaffinity(0, sizeof widest, &widest) == 0 && CPU_EQUAL(&widest, &before);
  if (!had_none) sched_setaffinity(0, sizeof before, &before);
}

}  // namespace rnnserve
