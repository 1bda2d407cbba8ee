// SPDX-License-Identifier: Apache-2.0
// Whether a second thread pays for a kind of work, as measured where it runs.
//
//   const bool may_help = record.MayHelp(now);
//   ...                                               // runs, helped or alone
//   record.Ran(was_helped, seconds, work, now);
//
// On a machine that does other work too, a helper loses its CPU in the middle of its part and its caller waits: two
// threads are slower than one. Each helped run is told against nine tenths of what it typically takes alone; once more
// is lost than gained by so many runs' time, runs are alone for a while, twice as long each time; then help is tried
// again. Where help pays, one run in 128 is alone, to know. Time is an argument. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace rnnserve::cpu {

class HelpRecord {
 public:
  using Time = std::chrono::steady_clock::time_point;

  bool MayHelp(Time now) { return now >= avoided_until_ && ++runs_ % kAloneEvery != kFirstAlone; }

  // `work`: in the same unit for all runs of a record.
  void Ran(bool was_helped, double seconds, double work, Time now) {
    const double pace = seconds / work;
    if (was_helped && cold_ > 0) {
      --cold_;
      return;
    }
    if (!was_helped) return RanAlone(pace);
    if (alone_ == 0) return;
    loss_ = std::max(loss_ + pace / alone_ - kWorthwhile, -kMost);
    if (loss_ == -kMost) pause_ = kFirstPause;
    if (loss_ < kMost) return;
    avoided_until_ = now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    loss_ = 0;
    cold_ = kCold;
  }

 private:
  // A tercile: the median would count stalls, which say nothing against running alone, and the least a lucky run.
  void RanAlone(double pace) {
    if (alone_ == 0) {
      alone_ = pace;
    } else {
      alone_ = std::clamp(pace, alone_ - alone_ / 8, alone_ + alone_ / 16);
    }
  }

  static constexpr double kWorthwhile = 0.9;
  static constexpr int64_t kAloneEvery = 128, kFirstAlone = 4;
  // In runs alone. Two stalls of a scheduler's turn in runs of a millisecond, or one that is as long as many short
  // runs.
  static constexpr double kMost = 4;
  // After a pause the helper's thread has to wake up, and its half of the weights is not in its cache.
  static constexpr int kCold = 2;
  static constexpr std::chrono::milliseconds kFirstPause{20}, kLongestPause{2000};

  double alone_ = 0;  // seconds for a unit of work; 0: none yet
  double loss_ = 0;   // what helped runs took more than they may, in runs alone; below zero: gained
  int64_t runs_ = 0;
  int cold_ = kCold;  // helped runs that tell nothing
  std::chrono::milliseconds pause_ = kFirstPause;
  Time avoided_until_;
};

}  // namespace rnnserve::cpu
