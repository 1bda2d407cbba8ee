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
#include <cstdint>

#include "absl/time/time.h"

namespace rnnserve {

class BusyPoll {
 public:
  // So many calls at a time are few callers'.
  static constexpr int64_t kFew = 2;

  explicit BusyPoll(absl::Duration most) : most_(most) {}

  void Took(int64_t calls) {
    for (int64_t k = 0; k < kFew; ++k) in_a_row_[k] = calls <= k + 1 ? std::min(in_a_row_[k] + 1, kInARow) : 0;
    turn_ = (turn_ + 1) % kLookEvery;
  }
  void Came(absl::Duration waited) { came_soon_ = waited <= most_; }

  // How many callers call: the most calls at once in one of the last turns; kFew + 1 where they are more, and at first.
  int64_t callers() const {
    return 1 + std::count_if(in_a_row_.begin(), in_a_row_.end(), [](int k) { return k < kInARow; });
  }
  bool is_few() const { return callers() <= kFew; }
  // Whether this turn must take in all calls that have come. Few callers are spared that mostly, but not always: served
  // as soon as it is taken in, each call of several looks like the only one, as the others wait in their connections.
  bool must_look() const { return !is_few() || turn_ == 0; }
  absl::Duration PollFor() const { return came_soon_ && is_few() ? most_ : absl::ZeroDuration(); }

 private:
  static constexpr int kInARow = 8;
  static constexpr int kLookEvery = 4;  // more often than once in a row: one look may miss a caller

  const absl::Duration most_;
  std::array<int, kFew> in_a_row_ = {};  // turns of at most 1, 2, ... calls
  int turn_ = 0;
  bool came_soon_ = false;
};

}  // namespace rnnserve
