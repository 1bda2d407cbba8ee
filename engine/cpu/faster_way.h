// SPDX-License-Identifier: Apache-2.0
// Which of two ways to do a kind of work is faster, as measured where it runs.
//
//   const bool first = way.Next(expected);
//   ...                                               // runs, the first way or the second
//   way.Ran(seconds / work);                          // or not, where that tells nothing
//
// Two threads that share a slice each take half of the rows, or half of the units of every step. That depends on what
// the two cores share: where each has a third-level cache of its own, handing over takes five times as long, and
// weights that fill one such cache are better read by halves. Products of float32 go through tiles or by multiply-adds,
// and those of one row of bfloat16 through tiles or by dot products: where another guest of the host is busy on the
// same core, loads of tiles were seen to take five times as long.
//
// A few runs go the other way now and then: a try begins with run kFirstTry of each 32 runs, later of each kEvery.
// Runs right after a change of the way do not count: caches have to warm up, and weights that come from the third one
// take two or three runs to be where they stay. A way is only left at the end of a try, when both have just run. Two
// choices of the same runs begin their tries at different times, and neither counts what runs in a try of the other.
// Not thread-safe.
#pragma once

#include <cstdint>

#include "engine/cpu/least_of_late.h"

namespace rnnserve::cpu {

template <int64_t kFirstTry, int64_t kEvery>
class FasterWay {
 public:
  // The way of the next run. `expected`: the one to begin with.
  bool Next(bool expected) {
    if (runs_ == 0) is_first_ = expected;
    ++runs_;
    const int64_t turn = runs_ % (runs_ < kEvery ? kEveryAtFirst : kEvery) - kFirstTry;
    if (turn == 0) is_hopeless_ = false;
    is_trying_ = turn >= 0 && turn < kTry && !is_hopeless_;
    const bool way = is_trying_ != is_first_;
    in_a_row_ = way == way_ ? in_a_row_ + 1 : 1;
    way_ = way;
    return way;
  }

  // Whether the last run goes the other way.
  bool is_trying() const { return is_trying_; }

  // `seconds` a unit of work, of the run that Next was asked for last; the unit is the same for all runs.
  void Ran(double seconds) {
    if (is_trying_ && usual_.value() != 0 && seconds > kHopeless * usual_.value()) is_hopeless_ = true;
    if (in_a_row_ < kTry) return;
    if (!is_trying_) return usual_.Add(seconds, kForgets);
    if (usual_.value() == 0 || seconds >= usual_.value() * kFaster) return;
    is_first_ = !is_first_;
    usual_.Add(seconds, kForgets);
  }

 private:
  static constexpr int64_t kEveryAtFirst = 32;
  // Runs, the last of which counts.
  static constexpr int64_t kTry = 3;
  static_assert(0 < kFirstTry && kFirstTry + kTry <= kEveryAtFirst);
  // A try ends where its run takes so many times the usual one.
  static constexpr double kHopeless = 3;
  static constexpr double kForgets = 0.05;
  // Closer ways are ties, and the way stays.
  static constexpr double kFaster = 0.98;

  int64_t runs_ = 0;
  int64_t in_a_row_ = 0;   // runs of the same way
  bool is_first_ = false;  // the way that is faster
  bool way_ = false;       // of the last run
  bool is_trying_ = false;
  bool is_hopeless_ = false;
  LeastOfLate usual_;  // of that way
};

// Not equally often: tries that begin together once do not go on to.
using HalvingWay = FasterWay<4, 96>;
using TilesWay = FasterWay<10, 104>;

}  // namespace rnnserve::cpu
