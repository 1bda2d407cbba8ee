// SPDX-License-Identifier: Apache-2.0
// Measures one level of load: so many callers, such a rate, or so many sessions.
//
// Closed loop: each caller sends its next request when its answer came. Open loop: requests are due at moments of their
// own (schedule.h), whether or not earlier ones are answered; a call's latency counts from the moment it was due, so a
// server that stalls is charged for all requests that had to wait meanwhile; so is the time until a tick (Load::tick).
//
// Time runs in windows. Answers that come during warm-up are dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "client/rnnctl/bench/schedule.h"
#include "client/rnnctl/bench/sender.h"
#include "client/rnnctl/bench/tally.h"

namespace rnnserve::rnnctl::bench {

struct Stopping {
  Time warm_up = std::chrono::milliseconds(500);
  // Goes on, up to ten times as long, until it holds ten answers.
  Time window = std::chrono::seconds(1);
  // With none of these: until three windows agree within `stability`, or `max_windows` are over.
  std::optional<Time> duration;
  std::optional<int64_t> requests;
  double stability = 0.1;
  int64_t max_windows = 30;
};

enum class Ended {
  kStable,       // three windows agreed
  kUnstable,     // max_windows were over
  kDuration,     // as asked
  kRequests,     // as asked
  kFailing,      // a window in which no call ended well
  kInterrupted,  // by the person
};

struct Level {
  Load load;
  Ended ended = Ended::kInterrupted;
  // Of the three windows that agreed; otherwise of all.
  Tally tally;
  int64_t windows = 0;
  // Open loop: requests that were due before the end but not sent, because max_in_flight, or the chunk before of the
  // same session, were under way.
  int64_t unsent = 0;
  // How long sessions that were opened for it, or in it, took to open.
  Histogram opened;
};

struct Hooks {
  std::function<bool()> interrupted;
  std::function<void(int64_t windows, const Tally& last_window)> progress;
  std::function<size_t()> next_request;
};

// No call is in flight at the start, nor at the end unless interrupted.
Level RunLevel(Sender& caller, const Load& load, const Stopping& stopping, const Hooks& hooks);

}  // namespace rnnserve::rnnctl::bench
