// SPDX-License-Identifier: Apache-2.0
// Whether few callers call, and adaptive busy polling: how long a thread polls for their next call before it sleeps.
// Waking up costs such a call 50 to 70 us, and it comes about as soon after its caller's last answer as the one before
// did.
//
//   BusyPoll busy_poll(absl::Microseconds(200));
//   ... poll until busy_poll.PollFor() has passed, then sleep ...
//   busy_poll.Came(waited);          // time until the event came, polling and asleep
//   ... take calls in; while busy_poll.must_look(), until no more have come ...
//   busy_poll.Took(calls);           // that want to be computed at once, those among them
//   ... run them: busy_poll.callers() call ...
//
// Polling costs CPU time. After an event that came later than `most`, the thread does not poll at all, so a caller that
// calls now and then costs at most one `most` for a series of calls. Only few callers are polled for: calls of several
// would be taken in one by one instead of together, which costs each of them more.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace rnnserve {

class BusyPoll {
 public:
  // So many calls at a time are few callers'.
  static constexpr int64_t kFew = 2;

  explicit BusyPoll(absl::Duration most) : most_(most) { calls_.fill(kFew + 1); }

  void Took(int64_t calls) { calls_[turn_++ % kTurns] = calls; }
  void Came(absl::Duration waited) { came_soon_ = waited <= most_; }

  // How many callers call: the most calls at once in the last turns, at most kFew + 1. So many at first.
  int64_t callers() const { return std::min(*std::max_element(calls_.begin(), calls_.end()), kFew + 1); }
  bool is_few() const { return callers() <= kFew; }
  // Whether this turn must take in all calls that have come. Few callers are spared that mostly, but not always: served
  // as soon as it is taken in, each call of several looks like the only one, as the others wait in their connections.
  bool must_look() const { return !is_few() || turn_ % kLookEvery == 0; }
  absl::Duration PollFor() const { return came_soon_ && is_few() ? most_ : absl::ZeroDuration(); }

 private:
  static constexpr size_t kTurns = 8;
  static constexpr size_t kLookEvery = 4;  // more than once in kTurns: one look may miss a caller

  const absl::Duration most_;
  std::array<int64_t, kTurns> calls_;  // of the last turns
  size_t turn_ = 0;
  bool came_soon_ = false;
};

}  // namespace rnnserve
