// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace rnnserve::rnnctl::bench {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kBits = 6;
constexpr size_t kPerDoubling = size_t{1} << kBits;

// Below 64 ns each value has its own bucket; from there on the leading seven bits choose it.
size_t IndexOf(uint64_t value) {
  if (value < kPerDoubling) return static_cast<size_t>(value);
  const size_t shift = static_cast<size_t>(std::bit_width(value)) - 1 - kBits;
  return shift * kPerDoubling + static_cast<size_t>(value >> shift);
}

// The largest value of the bucket.
nanoseconds LastOf(size_t index) {
  if (index < kPerDoubling) return nanoseconds(index);
  const size_t shift = index / kPerDoubling - 1;
  const uint64_t end = uint64_t{kPerDoubling + index % kPerDoubling + 1} << shift;  // up to 2^63
  return nanoseconds(end - 1);
}

nanoseconds EndOf(size_t index) {
  const nanoseconds last = LastOf(index);
  return last == nanoseconds::max() ? last : last + nanoseconds(1);
}

}  // namespace

void Histogram::Add(nanoseconds value) {
  const int64_t count = std::max<int64_t>(value.count(), 0);
  const size_t index = IndexOf(static_cast<uint64_t>(count));
  if (index >= counts_.size()) counts_.resize(index + 1);
  ++counts_[index];
  min_ = count_ == 0 ? count : std::min(min_, count);
  max_ = std::max(max_, count);
  sum_ += static_cast<double>(count);
  ++count_;
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (size_t k = 0; k < other.counts_.size(); ++k) counts_[k] += other.counts_[k];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

nanoseconds Histogram::Mean() const {
  return nanoseconds(count_ == 0 ? 0 : static_cast<int64_t>(std::llround(sum_ / static_cast<double>(count_))));
}

nanoseconds Histogram::Percentile(double percent) const {
  if (count_ == 0) return nanoseconds(0);
  // 99.9 % of 1,000 is 999.0000000000001 in floating point; it means 999.
  const double exact = percent / 100 * static_cast<double>(count_);
  const int64_t rank = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(exact - 1e-6)), 1, count_);
  int64_t below = 0;
  for (size_t k = 0; k < counts_.size(); ++k) {
    below += counts_[k];
    if (below >= rank) return std::clamp(LastOf(k), min(), max());
  }
  return max();
}

std::vector<Histogram::Bucket> Histogram::Buckets(int per_doubling) const {
  const size_t group = kPerDoubling / static_cast<size_t>(per_doubling);
  std::vector<Bucket> buckets;
  for (size_t first = 0; first < counts_.size(); first += group) {
    int64_t count = 0;
    for (size_t k = first; k < std::min(first + group, counts_.size()); ++k) count += counts_[k];
    if (count > 0 || !buckets.empty()) buckets.push_back({EndOf(first + group - 1), count});
  }
  return buckets;
}

}  // namespace rnnserve::rnnctl::bench
