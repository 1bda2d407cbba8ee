// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/sessions/find.h"

#include <algorithm>

namespace rnnserve::rnnctl::bench {
namespace {

constexpr int64_t kResolution = 20;    // a twentieth
constexpr int64_t kUnsentShare = 100;  // one in a hundred: the chunks under way when the clock stops

}  // namespace

int64_t FindMost(int64_t start, int64_t most, const std::function<std::optional<bool>(int64_t)>& holds) {
  bool interrupted = false;
  const auto held = [&](int64_t sessions) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::optional<bool> one = holds(sessions);
      interrupted = !one;
      if (interrupted) return false;
      if (*one) return true;
    }
    return false;
  };
  int64_t good = 0;
  int64_t bad = most + 1;
  for (int64_t next = std::min(start, most); bad - good > std::max<int64_t>(1, good / kResolution);) {
    const bool holds_next = held(next);
    if (interrupted) break;
    (holds_next ? good : bad) = next;
    next = bad > most ? std::min(good * 2, most) : good == 0 ? bad / 2 : good + (bad - good) / 2;
    if (next <= good) break;
  }
  return good;
}

bool IsHeld(const Level& level, Time target) {
  const Tally& tally = level.tally;
  return tally.good() > 0 && tally.failed() == 0 && level.unsent * kUnsentShare <= tally.good() &&
         tally.latency.Percentile(99) <= target;
}

}  // namespace rnnserve::rnnctl::bench
