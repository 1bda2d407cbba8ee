// SPDX-License-Identifier: Apache-2.0
// How long a thread that waits for events looks for the next one before it sleeps. Waking up again takes a lone
// caller's call 50 to 70 us; its next call comes about as soon after its answer as the last one did.
//
//   Lookout lookout(absl::Microseconds(200));
//   ... look until lookout.window() has passed, then sleep ...
//   lookout.Came(waited);                     // for the event, looking and asleep
//
// Looking costs CPU time: after an event that came later than `most`, the next one is not looked for at all, so that
// who calls now and then pays at most one `most` for a series of calls.
#pragma once

#include "absl/time/time.h"

namespace rnnserve {

class Lookout {
 public:
  explicit Lookout(absl::Duration most) : most_(most) {}

  absl::Duration window() const { return window_; }
  void Came(absl::Duration waited) { window_ = waited <= most_ ? most_ : absl::ZeroDuration(); }

 private:
  const absl::Duration most_;
  absl::Duration window_ = absl::ZeroDuration();
};

}  // namespace rnnserve
