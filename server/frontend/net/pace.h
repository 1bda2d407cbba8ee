// SPDX-License-Identifier: Apache-2.0
// How often something may be done: some at once, then one each so long.
//
//   Pace pace(absl::Milliseconds(1), 16);
//   if (pace.next() <= now) { ...; pace.Take(now); }
#pragma once

#include "absl/time/time.h"

namespace rnnserve {

class Pace {
 public:
  Pace(absl::Duration each, double at_once) : each_(each), ahead_(each * (at_once - 1)) {}

  // When the next one may be done.
  absl::Time next() const { return due_ - ahead_; }
  // One was done.
  void Take(absl::Time now) { due_ = (due_ < now ? now : due_) + each_; }

 private:
  const absl::Duration each_;
  const absl::Duration ahead_;
  absl::Time due_ = absl::InfinitePast();  // of the next one, were they spread evenly
};

}  // namespace rnnserve
