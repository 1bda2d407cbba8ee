// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/memory_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace rnnserve {
namespace {

// A look takes a few microseconds.
constexpr absl::Duration kFresh = absl::Milliseconds(10);
constexpr absl::Duration kFreshInNeed = absl::Microseconds(200);
// By then it has been taken.
constexpr absl::Duration kLately = absl::Milliseconds(10);
constexpr absl::Duration kBetweenRelief = absl::Milliseconds(20);
// For page tables, sockets and stacks of the kernel, and with an eighth of the limit for what arrives before it can be
// refused.
constexpr int64_t kBesides = 12 << 20;

}  // namespace

MemoryWatch::MemoryWatch(int64_t limit, std::function<int64_t()> resident, std::function<void(bool)> relieve)
    : limit_(limit),
      usable_(std::max<int64_t>(limit - limit / 8 - kBesides, 0)),
      measure_(std::move(resident)),
      relieve_(std::move(relieve)) {}

void MemoryWatch::Look(absl::Time now) {
  resident_ = measure_();
  looked_ = now;
  if (in_need_ && resident_ < usable_ / 2) {
    in_need_ = false;
    relieve_(false);
  }
}

void MemoryWatch::Turn(absl::Time now) {
  const absl::Duration passed = now - turned_;
  if (passed < kLately) return;
  before_ = passed < 2 * kLately ? lately_ : 0;
  lately_ = 0;
  turned_ = now;
}

bool MemoryWatch::HasRoom(int64_t bytes, absl::Time now) {
  std::lock_guard lock(mutex_);
  const int64_t promised = promised_.load(std::memory_order_relaxed);
  const auto fits = [&] { return bytes <= usable_ - resident_ - lately_ - before_ - promised; };
  Turn(now);
  if (now - looked_ >= kFresh) Look(now);
  if (!fits() && now - looked_ >= kFreshInNeed) Look(now);
  if (!fits() && relieve_ && now - relieved_ >= kBetweenRelief) {
    in_need_ = true;
    relieve_(true);
    relieved_ = now;
    Look(now);
  }
  if (!fits()) return false;
  lately_ += bytes;
  return true;
}

int64_t ResidentBytes() {
  static const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  std::array<char, 128> text = {};
  if (file < 0 || pread(file, text.data(), text.size() - 1, 0) <= 0) return 0;
  long long mapped = 0;
  long long resident = 0;
  if (std::sscanf(text.data(), "%lld %lld", &mapped, &resident) != 2) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace rnnserve
