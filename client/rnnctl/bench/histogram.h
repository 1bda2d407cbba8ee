// SPDX-License-Identifier: Apache-2.0
// Counts of durations in buckets that grow with the value: 64 for each doubling, so that a percentile is at most 1.6 %
// too large, whatever the range, in at most 30 KB. Smallest, largest and mean are exact.
//
//   Histogram latency;
//   latency.Add(std::chrono::microseconds(120));
//   latency.Percentile(99.9);
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace rnnserve::rnnctl::bench {

class Histogram {
 public:
  void Add(std::chrono::nanoseconds value);  // below 0 counts as 0
  void Merge(const Histogram& other);

  int64_t count() const { return count_; }
  // 0 while empty.
  std::chrono::nanoseconds min() const { return std::chrono::nanoseconds(count_ == 0 ? 0 : min_); }
  std::chrono::nanoseconds max() const { return std::chrono::nanoseconds(max_); }
  std::chrono::nanoseconds Mean() const;
  // The smallest value that at least `percent` of all do not exceed.
  std::chrono::nanoseconds Percentile(double percent) const;

  // Values below `end` and not below the previous bucket's.
  struct Bucket {
    std::chrono::nanoseconds end;
    int64_t count;
  };
  // From the first to the last one that is not empty. `per_doubling` divides 64.
  std::vector<Bucket> Buckets(int per_doubling) const;

 private:
  std::vector<int64_t> counts_;  // grows up to the largest value's bucket
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace rnnserve::rnnctl::bench
