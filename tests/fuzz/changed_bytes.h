// SPDX-License-Identifier: Apache-2.0
// A few of the changes that fuzzers make, for corpora that run as ordinary tests.
#pragma once

#include <random>
#include <string>

namespace rnnserve {

// `bytes` with bytes changed, cut out, and put in from itself and `other`.
inline std::string ChangedBytes(std::string bytes, const std::string& other, std::mt19937& random) {
  const auto below = [&](size_t end) { return end == 0 ? 0 : random() % end; };
  for (size_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = below(bytes.size());
    switch (below(5)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.erase(at, 1 + below(16));
        break;
      case 3:
        bytes.insert(at, bytes, below(bytes.size()), 1 + below(64));
        break;
      default:
        bytes.insert(at, other, below(other.size()), 1 + below(64));
    }
  }
  return bytes;
}

}  // namespace rnnserve
