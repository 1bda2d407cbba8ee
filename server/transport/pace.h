// SPDX-License-Identifier: Apache-2.0
// Token bucket: burst `at_once`, one token per `each`.
//
//   Pace pace(absl::Milliseconds(1), 16);
//   if (pace.next() <= now) { ...; pace.Take(now); }
//   pace.Delay(now, absl::Microseconds(300));  // this one took longer than others
#pragma once

#include "absl/time/time.h"

namespace rnnserve {

class Pace {
 public:
  Pace(absl::Duration each, double at_once) : each_(each), ahead_(each * (at_once - 1)) {}

  // When the next token is available.
  absl::Time next() const { return due_ - ahead_; }
  // Takes a token.
  void Take(absl::Time now) { Delay(now, each_); }
  // Delays the next tokens by `by`.
  void Delay(absl::Time now, absl::Duration by) { due_ = (due_ < now ? now : due_) + by; }

 private:
  const absl::Duration each_;
  const absl::Duration ahead_;
  absl::Time due_ = absl::InfinitePast();  // of the next one, were they spread evenly
};

}  // namespace rnnserve
