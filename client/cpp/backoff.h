// SPDX-License-Identifier: Apache-2.0
// How long to wait before another try: at once the first time, then twice as long each time up to a bound, and a fifth
// more or less, so that many clients do not retry at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace rnnserve::client {

class Backoff {
 public:
  static constexpr std::chrono::milliseconds kFirst{50};
  static constexpr std::chrono::milliseconds kLongest{2000};

  explicit Backoff(uint32_t seed, std::chrono::milliseconds longest = kLongest) : longest_(longest), random_(seed) {}

  // Before try number `tried` + 1.
  std::chrono::milliseconds After(int tried) {
    if (tried == 0) return std::chrono::milliseconds(0);
    const auto doubled = std::min(kFirst * (int64_t{1} << std::min(tried - 1, 10)), longest_);
    return doubled * std::uniform_int_distribution<int64_t>(80, 120)(random_) / 100;
  }

 private:
  std::chrono::milliseconds longest_;
  std::minstd_rand random_;
};

}  // namespace rnnserve::client
