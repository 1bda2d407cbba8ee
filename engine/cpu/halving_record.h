// SPDX-License-Identifier: Apache-2.0
// Which way of sharing a kind of work between two threads is faster, as measured where it runs: each takes half of the
// rows, or half of the units of every step.
//
//   const bool halve_rows = record.Next(expected);
//   ...                                               // runs, on both threads
//   record.Ran(halve_rows, seconds / work);
//
// It depends on what the two cores share: where each has a third-level cache of its own, handing over takes five times
// as long, and weights that fill one such cache are better read by halves. Now and then two runs go the other way, the
// first of them to warm the caches. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rnnserve::cpu {

class HalvingRecord {
 public:
  // `expected`: the way to begin with.
  bool Next(bool expected) {
    if (runs_ == 0) halves_ = expected;
    const int64_t turn = ++runs_ % kEvery;
    return turn == kFirstTry || turn == kFirstTry + 1 ? !halves_ : halves_;
  }

  // `seconds` a unit of work; the unit is the same for all runs of a record.
  void Ran(bool halved, double seconds) {
    const bool is_warm = halved == last_;
    last_ = halved;
    if (!is_warm) return;
    double& mean = halved ? halved_ : shared_;
    // A stall tells nothing about either way. The other one runs rarely, so each of its runs weighs more.
    const double newest = halved == halves_ ? kNewest : kNewestOfOther;
    mean += mean == 0 ? seconds : newest * (std::min(seconds, 2 * mean) - mean);
    if (halved_ == 0 || shared_ == 0) return;
    halves_ = halves_ ? halved_ <= shared_ / kFaster : halved_ < shared_ * kFaster;
  }

 private:
  static constexpr int kEvery = 64, kFirstTry = 4;
  static constexpr double kNewest = 0.125, kNewestOfOther = 0.5;
  // Closer ways are ties, and the way stays.
  static constexpr double kFaster = 0.98;

  int64_t runs_ = 0;
  bool halves_ = false;
  bool last_ = false;
  double halved_ = 0, shared_ = 0;  // means, newer runs weigh more; 0: none yet
};

}  // namespace rnnserve::cpu
