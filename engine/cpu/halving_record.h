// SPDX-License-Identifier: Apache-2.0
// Which way of sharing a kind of work between two threads is faster, as measured where it runs: each takes half of the
// rows, or half of the units of every step.
//
//   const bool halve_rows = record.Next(expected);
//   ...                                               // runs, on both threads
//   record.Ran(halve_rows, seconds / work);
//
// It depends on what the two cores share: where each has a third-level cache of its own, handing over takes five times
// as long, and weights that fill one such cache are better read by halves. Now and then, and more often at first, two
// runs go the other way, the first of them to warm the caches. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rnnserve::cpu {

class HalvingRecord {
 public:
  // `expected`: the way to begin with.
  bool Next(bool expected) {
    if (runs_ == 0) halves_ = expected;
    ++runs_;
    const int64_t turn = runs_ % (runs_ < kEvery ? kEveryAtFirst : kEvery);
    return turn == kFirstTry || turn == kFirstTry + 1 ? !halves_ : halves_;
  }

  // `seconds` a unit of work; the unit is the same for all runs of a record.
  void Ran(bool halved, double seconds) {
    const bool is_warm = halved == last_;
    last_ = halved;
    if (!is_warm) return;
    double& least = halved ? halved_ : shared_;
    if (least == 0 || seconds < least) {
      least = seconds;
    } else {
      least += (halved == halves_ ? kForgets : kForgetsOfOther) * (std::min(seconds, 2 * least) - least);
    }
    if (halved_ == 0 || shared_ == 0) return;
    halves_ = halves_ ? halved_ <= shared_ / kFaster : halved_ < shared_ * kFaster;
  }

 private:
  static constexpr int64_t kEvery = 64, kEveryAtFirst = 16, kFirstTry = 4;
  // A stall tells nothing about either way, so what counts is the shortest time of late. It is forgotten slowly; that
  // of the way that runs rarely in larger steps.
  static constexpr double kForgets = 0.05, kForgetsOfOther = 0.125;
  // Closer ways are ties, and the way stays.
  static constexpr double kFaster = 0.98;

  int64_t runs_ = 0;
  bool halves_ = false;
  bool last_ = false;
  double halved_ = 0, shared_ = 0;  // 0: none yet
};

}  // namespace rnnserve::cpu
