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

#include <cstdint>

#include "engine/cpu/least_of_late.h"

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
    (halved ? halved_ : shared_).Add(seconds, halved == halves_ ? kForgets : kForgetsOfOther);
    if (halved_.value() == 0 || shared_.value() == 0) return;
    halves_ = halves_ ? halved_.value() <= shared_.value() / kFaster : halved_.value() < shared_.value() * kFaster;
  }

 private:
  static constexpr int64_t kEvery = 64, kEveryAtFirst = 16, kFirstTry = 4;
  // The time of the way that runs rarely is forgotten in larger steps.
  static constexpr double kForgets = 0.05, kForgetsOfOther = 0.125;
  // Closer ways are ties, and the way stays.
  static constexpr double kFaster = 0.98;

  int64_t runs_ = 0;
  bool halves_ = false;
  bool last_ = false;
  LeastOfLate halved_, shared_;
};

}  // namespace rnnserve::cpu
