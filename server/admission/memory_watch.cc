// SPDX-License-Identifier: Apache-2.0
#include "server/admission/memory_watch.h"

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
// For page tables, sockets and stacks of the kernel, and with an eighth of the limit for pages of files in use and what
// arrives unasked.
constexpr int64_t kBesides = 12 << 20;

}  // namespace

MemoryWatch::MemoryWatch(int64_t limit, std::function<int64_t()> resident, std::function<void(bool)> relieve)
    : limit_(limit),
      usable_(std::max<int64_t>(limit - limit / 8 - kBesides, 0)),
      measure_(std::move(resident)),
      relieve_(std::move(relieve)) {}

void MemoryWatch::Look(absl::Time now) {
  taken_.store(0, std::memory_order_relaxed);
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
  MutexLock lock(mutex_);
  if (!Fits(bytes, now)) return false;
  lately_ += bytes;
  return true;
}

bool MemoryWatch::TryPromise(int64_t bytes, absl::Time now) {
  MutexLock lock(mutex_);
  if (!Fits(bytes, now)) return false;
  Promise(bytes);
  return true;
}

bool MemoryWatch::Fits(int64_t bytes, absl::Time now) {
  const auto fits = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t promised = promised_.load(std::memory_order_relaxed) + taken_.load(std::memory_order_relaxed);
    return bytes <= usable_ - resident_ - lately_ - before_ - promised;
  };
  Turn(now);
  if (now - looked_ >= kFresh) Look(now);
  if (!fits() && now - looked_ >= kFreshInNeed) Look(now);
  if (!fits() && relieve_ && now - relieved_ >= kBetweenRelief) {
    in_need_ = true;
    relieve_(true);
    relieved_ = now;
    Look(now);
  }
  return fits();
}

int64_t AnonymousBytes() {
  static const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  std::array<char, 128> text = {};
  if (file < 0 || pread(file, text.data(), text.size() - 1, 0) <= 0) return 0;
  long long mapped = 0;
  long long resident = 0;
  long long shared = 0;
  if (std::sscanf(text.data(), "%lld %lld %lld", &mapped, &resident, &shared) != 3) return 0;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

}  // namespace rnnserve
