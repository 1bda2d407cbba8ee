// SPDX-License-Identifier: Apache-2.0
// How much memory a call of one method is likely to need, by the largest of the last seconds: gRPC does not say how
// large a message is before it has been read. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace rnnserve {

// The largest number of the last five to ten seconds with any.
class RecentLargest {
 public:
  void Saw(int64_t number, absl::Time now) {
    if (now - turned_ >= kTurn) {
      last_ = this_;
      this_ = 0;
      turned_ = now;
    }
    this_ = std::max(this_, number);
  }
  // 0: none yet.
  int64_t Get() const { return std::max(this_, last_); }

 private:
  static constexpr absl::Duration kTurn = absl::Seconds(5);

  int64_t this_ = 0, last_ = 0;
  absl::Time turned_ = absl::InfinitePast();
};

struct CallSizes {
  // The bytes of the message; and all bytes of a call: of its messages in both directions, and of what they are parsed
  // into and encoded from.
  RecentLargest message, whole;

  void SawMessage(int64_t bytes, absl::Time now) {
    message.Saw(bytes, now);
    whole.Saw(2 * bytes, now);
  }
  void SawReply(int64_t message_bytes, int64_t reply_bytes, absl::Time now) {
    whole.Saw(2 * (message_bytes + reply_bytes), now);
  }
};

}  // namespace rnnserve
