// SPDX-License-Identifier: Apache-2.0
// Whether a second thread pays for a kind of work, as measured where it runs.
//
//   const bool may_help = record.MayHelp(now);
//   ...                                               // runs, helped or alone
//   record.Ran(was_helped, seconds, work, now);
//
// On a machine that does other work too, a helper loses its CPU in the middle of its part and its caller waits: two
// threads can be slower than one. But a run alone loses its CPU as well, so both are judged by their means, stalls
// included. A helped run that takes more than nine tenths of the mean run alone loses the difference, a faster one
// gains it. Once kMost runs alone are lost, or kMostSeconds of short ones, runs are alone for a while, twice as long
// each time; then help is tried again, and its first run that counts has to gain. Where help pays, two runs in 256 are
// alone, to know; the first of them finds half of the weights in the other core's cache and does not count. Time is an
// argument. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace rnnserve::cpu {

class HelpRecord {
 public:
  using Time = std::chrono::steady_clock::time_point;

  bool MayHelp(Time now) {
    if (now < avoided_until_) return false;
    ++runs_;
    const int64_t turn = runs_ % kAloneEvery;
    if (turn == kFirstAlone || turn == kFirstAlone + 1) return false;
    return runs_ <= kFirstAlone || runs_ > kFirstAlone + kKnown;
  }

  // Its first runs afterwards tell nothing: its half of the weights has left its cache, and it has to wake up.
  void HelperIsAway() { cold_ = kCold; }

  // `work`: in the same unit for all runs of a record.
  void Ran(bool was_helped, double seconds, double work, Time now) {
    const double pace = seconds / work;
    const bool is_warm = std::exchange(was_alone_, !was_helped);
    if (was_helped) tried_seconds_ += seconds;
    if (was_helped && cold_ > 0) {
      --cold_;
      if (cold_ <= kCold - kLeastCold && tried_seconds_ >= kLongestCold) cold_ = 0;
      return;
    }
    if (!was_helped) return is_warm ? RanAlone(pace) : void();
    if (mean_ == 0) return;
    const double most = std::max(kMost, kMostSeconds / (mean_ * work));
    loss_ = std::max(loss_ + (pace / mean_ - kWorthwhile) / most, -1.0);
    if (loss_ == -1) {
      pause_ = kFirstPause;
      tried_seconds_ = 0;
    }
    if (loss_ < (std::exchange(is_first_, false) ? 0 : 1)) return;
    avoided_until_ =
        now + (pause_ < kLongestPause ? pause_ : std::max<Time::duration>(pause_, PauseAfter(tried_seconds_)));
    pause_ = std::min(2 * pause_, kLongestPause);
    loss_ = 0;
    tried_seconds_ = 0;
    cold_ = kCold;
    is_first_ = true;
  }

 private:
  void RanAlone(double pace) {
    ++runs_alone_;
    if (runs_alone_ <= kKnown) {
      typical_ = mean_ = runs_alone_ == 1 ? pace : std::min(pace, typical_);  // they may have met cold caches
      return;
    }
    // A tercile, since it falls in twice as large steps as it rises.
    typical_ = std::clamp(pace, typical_ - typical_ / 8, typical_ + typical_ / 16);
    mean_ += (std::min(pace, kLongestStall * typical_) - mean_) / 16;
  }

  // Where it never pays, trying takes a small share of the time, however long a run is.
  static Time::duration PauseAfter(double tried_seconds) {
    const std::chrono::duration<double> pause(std::min(8 * tried_seconds, kLongestAfterTry));
    return std::chrono::duration_cast<Time::duration>(pause);
  }

  static constexpr double kWorthwhile = 0.9;
  // What one run alone may count, in typical ones: one of eight would speak for help for hundreds of runs.
  static constexpr double kLongestStall = 4;
  static constexpr int64_t kAloneEvery = 256, kFirstAlone = 4, kKnown = 4;
  // In runs alone. Two stalls of a scheduler's turn in runs of a millisecond; of short runs as many as one stall of a
  // virtual machine's takes: with 4 of 10 us every such stall, one in a hundred runs, ended help that saved a third.
  static constexpr double kMost = 4;
  static constexpr double kMostSeconds = 0.5e-3;
  // After a pause the helper's thread has to wake up, its half of the weights is not in its cache, and the kernel takes
  // some calls to find CPUs for the threads of caller, server and helper: with 2 cold runs of 100 us help never came
  // back on two cores. Of longer runs there are fewer.
  static constexpr int kCold = 8, kLeastCold = 2;
  static constexpr double kLongestCold = 1.5e-3;  // seconds
  static constexpr std::chrono::milliseconds kFirstPause{20}, kLongestPause{2000};
  static constexpr double kLongestAfterTry = 60;  // seconds

  double typical_ = 0, mean_ = 0;  // of runs alone, seconds for a unit of work; 0: none yet
  double loss_ = 0;                // what helped runs took more than they may, of all they may; below zero: gained
  double tried_seconds_ = 0;       // of helped runs since then
  int64_t runs_ = 0, runs_alone_ = 0;
  int cold_ = kCold;       // helped runs that tell nothing
  bool is_first_ = false;  // after a pause
  bool was_alone_ = false;
  std::chrono::milliseconds pause_ = kFirstPause;
  Time avoided_until_;
};

}  // namespace rnnserve::cpu
