// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/metric.h"

#include <algorithm>
#include <array>

namespace rnnserve {
namespace {

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;
constexpr std::array<int64_t, 22> kLatency = {50 * kUs,    89 * kUs,    160 * kUs,   290 * kUs,   510 * kUs, 910 * kUs,
                                              1'600 * kUs, 2'900 * kUs, 5'200 * kUs, 9'300 * kUs, 17 * kMs,  30 * kMs,
                                              53 * kMs,    95 * kMs,    170 * kMs,   300 * kMs,   540 * kMs, 970 * kMs,
                                              1'700 * kMs, 3'100 * kMs, 5'600 * kMs, 10'000 * kMs};
constexpr std::array<int64_t, 13> kSizes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

}  // namespace

void Histogram::Observe(int64_t value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::vector<int64_t> Histogram::counts() const {
  std::vector<int64_t> counts;
  counts.reserve(counts_.size());
  for (const std::atomic<int64_t>& count : counts_) counts.push_back(count.load(std::memory_order_relaxed));
  return counts;
}

std::span<const int64_t> LatencyBounds() { return kLatency; }
std::span<const int64_t> SizeBounds() { return kSizes; }

}  // namespace rnnserve
