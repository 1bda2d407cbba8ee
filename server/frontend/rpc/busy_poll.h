// SPDX-License-Identifier: Apache-2.0
// Adaptive busy polling: how long a thread polls for the next event before it sleeps. Waking up costs a lone caller's
// call 50 to 70 us, and its next call comes about as soon after its answer as the last one did.
//
//   BusyPoll busy_poll(absl::Microseconds(200));
//   const absl::Duration window = busy_poll.Window(served);   // calls served since the last Window
//   ... poll until the window has passed, then sleep ...
//   busy_poll.Came(waited);                                   // time until the event came, polling and asleep
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

  // `served`: calls served since the last Window.
  absl::Duration Window(int64_t served) {
    alone_in_a_row_ = served > 1 ? 0 : std::min(alone_in_a_row_ + 1, kAloneInARow);
    return came_soon_ && alone_in_a_row_ == kAloneInARow ? most_ : absl::ZeroDuration();
  }
  void Came(absl::Duration waited) { came_soon_ = waited <= most_; }

 private:
  // Of several callers one may be served alone at times.
  static constexpr int kAloneInARow = 4;

  const absl::Duration most_;
  int alone_in_a_row_ = 0;
  bool came_soon_ = false;
};

}  // namespace rnnserve
