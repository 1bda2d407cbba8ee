// SPDX-License-Identifier: Apache-2.0
// Adaptive busy polling: whether one caller calls alone, and how long a thread polls for that caller's next call before
// it sleeps. Waking up costs a lone caller's call 50 to 70 us, and its next call comes about as soon after its answer
// as the last one did.
//
//   BusyPoll busy_poll(absl::Microseconds(200));
//   ... poll until busy_poll.PollFor() has passed, then sleep ...
//   busy_poll.Came(waited);          // time until the event came, polling and asleep
//   busy_poll.Took(calls, waited);   // calls taken in together, and the time waited for them since the last ones
//   if (busy_poll.is_alone()) ...
//
// Polling costs CPU time. After an event that came later than `most`, the thread does not poll at all, so a caller that
// calls now and then costs at most one `most` for a series of calls. Only a lone caller is polled for: calls of several
// callers would be taken in one by one instead of together, which costs each of them more.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace rnnserve {

class BusyPoll {
 public:
  explicit BusyPoll(absl::Duration most) : most_(most) {}

  void Took(int64_t calls, absl::Duration waited) {
    const bool is_one = calls <= 1 && waited >= kTurnaround;
    alone_in_a_row_ = is_one ? std::min(alone_in_a_row_ + 1, kAloneInARow) : 0;
  }
  void Came(absl::Duration waited) { came_soon_ = waited <= most_; }

  // Whether the last few calls came one by one, each some time after the one before had been served.
  bool is_alone() const { return alone_in_a_row_ == kAloneInARow; }
  absl::Duration PollFor() const { return came_soon_ && is_alone() ? most_ : absl::ZeroDuration(); }

 private:
  // So many calls in a row show a lone caller: one of several may be served alone at times.
  static constexpr int kAloneInARow = 4;
  // A caller takes longer from its answer to its next call; a call that is here sooner is another caller's.
  static constexpr absl::Duration kTurnaround = absl::Microseconds(10);

  const absl::Duration most_;
  int alone_in_a_row_ = 0;
  bool came_soon_ = false;
};

}  // namespace rnnserve
