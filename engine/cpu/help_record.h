// SPDX-License-Identifier: Apache-2.0
// Whether a second thread pays for a kind of work, as measured where it runs.
//
//   const bool may_help = record.MayHelp(now);
//   ...                                               // runs, helped or alone
//   record.Ran(was_helped, seconds, work, now);
//
// On a machine that does other work too, a helper loses its CPU in the middle of its part and its caller waits: two
// threads are slower than one. Where runs with help are less than a tenth faster than runs alone, runs are alone for a
// while, twice as long each time; then one of them tries again. Where help pays, one run in 128 is alone, to know. Time
// is an argument. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "engine/cpu/least_of_late.h"

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
    if (!was_helped) return alone_.Add(pace, kNewest);
    const double expected = alone_.value() == 0 ? seconds : alone_.value() * work;
    const double newest = std::min(kNewest, expected / kWindow);
    ++helped_runs_;
    helped_ += std::max(newest, 1.0 / helped_runs_) * (pace - helped_);
    if (alone_.value() == 0 || helped_runs_ * newest < kNewest) return;
    if (helped_ <= kWorthwhile * alone_.value()) {
      if (++good_in_a_row_ >= kGoodInARow) pause_ = kFirstPause;
      return;
    }
    avoided_until_ = now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    good_in_a_row_ = 0;
    helped_ = 0;
    helped_runs_ = 0;
    cold_ = kCold;
  }

 private:
  // A stall of the helper shows in a mean, and several of them outweigh what it gains in between.
  static constexpr double kNewest = 0.125;
  // Short runs need a mean of more of them: an interrupt is as long as two, and comes once in a thousand.
  static constexpr double kWindow = 400e-6;
  static constexpr double kWorthwhile = 0.9;
  static constexpr int64_t kAloneEvery = 128, kFirstAlone = 4;
  static constexpr int kGoodInARow = 32;
  // After a pause the helper's thread has to wake up, and its half of the weights is not in its cache.
  static constexpr int kCold = 2;
  static constexpr std::chrono::milliseconds kFirstPause{20}, kLongestPause{2000};

  // A mean, newer runs weigh more. Its stalls count, those of runs alone do not: on a machine with other
  // work a run alone loses its CPU as well, but the helper's CPU time is lost besides.
  double helped_ = 0;
  int helped_runs_ = 0;  // in the mean
  LeastOfLate alone_;
  int64_t runs_ = 0;
  int good_in_a_row_ = 0;
  int cold_ = kCold;  // helped runs that tell nothing
  std::chrono::milliseconds pause_ = kFirstPause;
  Time avoided_until_;
};

}  // namespace rnnserve::cpu
