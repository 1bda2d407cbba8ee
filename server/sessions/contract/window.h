// SPDX-License-Identifier: Apache-2.0
// The replies a session keeps for repetitions: the newest ones, bounded in operations and bytes. Not thread-safe; its
// session locks.
#pragma once

#include <cstdint>
#include <list>

#include "server/sessions/contract/digest.h"
#include "server/sessions/contract/numbers.h"
#include "server/sessions/contract/session_state.h"

namespace rnnserve {

class Window {
 public:
  // What each kept reply costs besides its own bytes.
  static constexpr int64_t kBytesPerReply = 128;

  struct Limits {
    int32_t operations = 16;
    int64_t bytes = 1 << 20;

    // Whether a reply of `bytes` can be kept at all.
    bool Fits(int64_t reply_bytes) const { return operations == 0 || reply_bytes <= bytes; }
  };
  struct Kept {
    uint64_t number;
    Digest digest;
    Numbers numbers;  // as the reply said
    KeptReplyPtr reply;
  };

  int64_t bytes() const { return bytes_; }
  // What those that are kept cost.
  int64_t charge() const { return bytes_ + static_cast<int64_t>(kept_.size()) * kBytesPerReply; }

  // Adds the newest reply; drops the oldest ones until the session's limits hold.
  void Keep(Kept kept, const Limits& limits);
  // Null: not kept.
  const Kept* Find(uint64_t number) const;
  void Clear();

 private:
  int64_t bytes_ = 0;     // of replies
  std::list<Kept> kept_;  // by number
};

}  // namespace rnnserve
