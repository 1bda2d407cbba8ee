// SPDX-License-Identifier: Apache-2.0
// What of a session's window the replies in flight will take, so that each that has to be asked for again is still
// there: nothing more is sent than fits, and at least one operation at a time. Inside the library only.
//
// How large a chunk's reply is, the first one with the same outputs tells: Y grows with the steps, the others do not.
// Until then, chunks go one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "rnnserve/v1/sessions.pb.h"

namespace rnnserve::client {

class ReplyRoom {
 public:
  // As agreed at Open. 0: the server keeps no replies, so nothing is held back.
  void SetWindow(int64_t bytes) { window_bytes_ = bytes; }

  // Of an operation that changes the session; nothing: not known yet.
  std::optional<int64_t> Expect(const v1::Operation& operation) const;
  // Whether it may go out next to others whose replies take so much together; `all_known`: all of theirs.
  bool Fits(std::optional<int64_t> expected, int64_t others, bool all_known) const;
  void Learn(const v1::Operation& operation, const v1::OperationReply& reply);
  // The session gets other rows.
  void Forget() { sizes_.clear(); }

 private:
  struct Size {
    int64_t fixed = 0;
    double steps = 1;     // of the chunk that was learned from
    double per_step = 0;  // and row
    double either = 0;    // bytes of outputs that may grow with the steps or not
  };
  int64_t window_bytes_ = 0;
  std::map<std::string, Size> sizes_;  // by outputs
};

}  // namespace rnnserve::client
