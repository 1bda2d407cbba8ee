// SPDX-License-Identifier: Apache-2.0
// What an operation says, in 128 bits: equal operations have equal digests. Made by the core; compared here.
#pragma once

#include <cstdint>

namespace rnnserve {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Digest&) const = default;
};

}  // namespace rnnserve
