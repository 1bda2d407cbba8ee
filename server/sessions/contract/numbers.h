// SPDX-License-Identifier: Apache-2.0
// The numbers of a session.
#pragma once

#include <cstdint>

namespace rnnserve {

struct Numbers {
  // The number of the last operation that changed the session; 0: none yet.
  uint64_t last_applied = 0;
  // Steps the session has run through; Rewind and Reset move it, numbers never go back.
  uint64_t position = 0;

  // The number at which a caller continues: numbers in flight may be sent again and are joined.
  uint64_t next_expected() const { return last_applied + 1; }
  bool operator==(const Numbers&) const = default;
};

}  // namespace rnnserve
