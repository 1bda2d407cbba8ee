// SPDX-License-Identifier: Apache-2.0
// Which of two ways to do a kind of work is faster, as measured where it runs.
//
//   const bool first = way.Next(expected);
//   ...                                               // runs, the first way or the second
//   way.Ran(first, seconds / work);
//
// Two threads that share a slice each take half of the rows, or half of the units of every step. That depends on what
// the two cores share: where each has a third-level cache of its own, handing over takes five times as long, and
// weights that fill one such cache are better read by halves. Products of float32 go through tiles or by multiply-adds,
// and those of one row of bfloat16 through tiles or by dot products: where another guest of the host is busy on the
// same core, loads of tiles were seen to take five times as long.
//
// Now and then, and more often at first, a few runs go the other way: from the fourth of sixteen on, later of 64, or
// from kFirstTry on. Two of them, the first of which warms the caches, and more as long as each is clearly shorter than
// the one before: weights that come from the third cache take three or four runs to be where they stay. Two choices of
// the same runs try at different times, or each would measure the other. Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>

#include "engine/cpu/least_of_late.h"

namespace rnnserve::cpu {

template <int64_t kFirstTry>
class FasterWay {
 public:
  // `expected`: the way to begin with.
  bool Next(bool expected) {
    if (runs_ == 0) is_first_ = expected;
    ++runs_;
    const int64_t turn = runs_ % (runs_ < kEvery ? kEveryAtFirst : kEvery) - kFirstTry;
    if (turn < 0 || turn >= kLongestTry) return is_first_;
    if (turn == 0) try_ends_ = kShortestTry;
    return turn < try_ends_ ? !is_first_ : is_first_;
  }

  // `seconds` a unit of work; the unit is the same for all runs.
  void Ran(bool first, double seconds) {
    const bool is_warm = std::exchange(last_, first) == first;
    const double before = std::exchange(before_, seconds);
    if (!is_warm) return;
    const bool is_tried = first != is_first_;
    if (is_tried && seconds < kWarming * before) {
      ++try_ends_;  // it is still getting faster
    }
    (first ? first_ : second_).Add(seconds, is_tried ? kForgetsOfOther : kForgets);
    if (first_.value() == 0 || second_.value() == 0) return;
    const bool stays =
        is_first_ ? first_.value() <= second_.value() / kFaster : first_.value() >= second_.value() * kFaster;
    if (stays) return;
    is_first_ = !is_first_;
    try_ends_ = 0;
  }

 private:
  static constexpr int64_t kEvery = 64, kEveryAtFirst = 16;
  static constexpr int64_t kShortestTry = 2, kLongestTry = 6;
  static_assert(0 < kFirstTry && kFirstTry + kLongestTry <= kEveryAtFirst);
  static constexpr double kWarming = 0.95;
  // The time of the way that runs rarely is forgotten in larger steps.
  static constexpr double kForgets = 0.05, kForgetsOfOther = 0.125;
  // Closer ways are ties, and the way stays.
  static constexpr double kFaster = 0.98;

  int64_t runs_ = 0;
  bool is_first_ = false;  // the way that is faster
  bool last_ = false;
  double before_ = 0;     // what the last run took
  int64_t try_ends_ = 0;  // after so many runs
  LeastOfLate first_, second_;
};

using HalvingWay = FasterWay<4>;
using TilesWay = FasterWay<10>;

}  // namespace rnnserve::cpu
