// SPDX-License-Identifier: Apache-2.0
// How many connections gRPC may have that are in their handshake, that is without a call: few at first, more once such
// connections do call, as in TCP's slow start. Clients that reconnect together double it in each of their round trips;
// connections that never call get one place a turn.
#pragma once

#include <algorithm>
#include <cstddef>

namespace rnnserve {

class HandshakeWindow {
 public:
  static constexpr size_t kLeast = 16;
  static constexpr size_t kMost = 256;

  // The places of this turn, at least one: `waiting` connections have not called, `proved` have called since the last
  // turn.
  size_t Places(size_t waiting, size_t proved) {
    window_ = std::min(window_ + 2 * std::min(proved, kMost), kMost);
    if (window_ > waiting) return window_ - waiting;
    if (proved == 0) window_ = kLeast;
    return 1;
  }

 private:
  size_t window_ = kLeast;
};

}  // namespace rnnserve
