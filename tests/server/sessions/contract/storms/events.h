// SPDX-License-Identifier: Apache-2.0
// Virtual time: what is to happen when. One thread; events of the same moment run in the order in which they were
// added.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "server/sessions/contract/clock.h"

namespace rnnserve::storms {

class Events final : public MonotonicClock {
 public:
  explicit Events(uint64_t seed) : random_(seed) {}

  absl::Duration Now() const override { return now_; }
  void After(absl::Duration by, absl::AnyInvocable<void()> run) {
    waiting_.emplace(std::pair(now_ + by, ++serial_), std::move(run));
  }
  void RunUntil(absl::Duration end) {
    while (!waiting_.empty() && waiting_.begin()->first.first <= end) {
      auto next = waiting_.extract(waiting_.begin());
      now_ = next.key().first;
      next.mapped()();
    }
    now_ = end;
  }

  // Nothing that is waiting happens; what it holds goes now.
  void Clear() { std::exchange(waiting_, {}).clear(); }

  // What chance decides in this world.
  uint64_t Draw(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_); }
  absl::Duration Between(absl::Duration least, absl::Duration most) {
    return least + absl::Microseconds(static_cast<int64_t>(Draw(absl::ToInt64Microseconds(most - least) + 1)));
  }

 private:
  absl::Duration now_ = absl::Seconds(1000);
  uint64_t serial_ = 0;
  std::map<std::pair<absl::Duration, uint64_t>, absl::AnyInvocable<void()>> waiting_;
  std::mt19937_64 random_;
};

}  // namespace rnnserve::storms
