// SPDX-License-Identifier: Apache-2.0
// What is counted: a counter, a gauge, a histogram. Lock-free; a change costs one or two relaxed additions.
//
// A counting thread holds a pointer to the metric, looked up once (metrics.h), and never a name. Values are whole
// numbers: durations in nanoseconds, sizes in bytes; the registry knows by what to divide for seconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/time/time.h"

namespace rnnserve {

// Only grows.
class Counter {
 public:
  void Add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

// Goes up and down.
class Gauge {
 public:
  void Add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  void Set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

// How many observations fell where.
class Histogram {
 public:
  // `bounds` ascend and outlive the histogram; bucket k holds what is at most bounds[k], the last one what is above
  // all.
  explicit Histogram(std::span<const int64_t> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Observe(int64_t value);
  void Observe(absl::Duration duration) { Observe(absl::ToInt64Nanoseconds(duration)); }

  std::span<const int64_t> bounds() const { return bounds_; }
  // Observations in each bucket alone; there is one bucket more than bounds.
  std::vector<int64_t> counts() const;
  int64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  const std::span<const int64_t> bounds_;
  std::vector<std::atomic<int64_t>> counts_;
  std::atomic<int64_t> sum_ = 0;
};

// 50 us to 10 s by a factor of about 1.8, in nanoseconds.
std::span<const int64_t> LatencyBounds();
// 1, 2, 4, ... 4096: of batches and the like.
std::span<const int64_t> SizeBounds();

}  // namespace rnnserve
