// SPDX-License-Identifier: Apache-2.0
// How long a thread that waits for events looks for the next one before it sleeps. Waking up again takes a lone
// caller's call 50 to 70 us; its next call comes about as soon after its answer as the last one did.
//
//   Lookout lookout(absl::Microseconds(200));
//   const absl::Duration window = lookout.Window(served);   // since it was asked last
//   ... look until the window has passed, then sleep ...
//   lookout.Came(waited);                                   // for the event, looking and asleep
//
// Looking costs CPU time: after an event that came later than `most` the next one is not looked for at all, so that who
// calls now and then pays at most one `most` for a series of calls. And it is for a lone caller: those of several would
// be taken in one by one instead of together, which costs each of them more.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace rnnserve {

class Lookout {
 public:
  explicit Lookout(absl::Duration most) : most_(most) {}

  // `served`: since it was asked last.
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
