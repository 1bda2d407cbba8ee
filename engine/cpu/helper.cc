// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/helper.h"

#include <hwy/cache_control.h>

namespace rnnserve::cpu {
namespace {

// About 50 us of one core; less is over before a sleeping thread has come.
constexpr int64_t kWorthWaking = 1'000'000;
// How long the helper looks out for the next Advance.
constexpr std::chrono::microseconds kLookOut{20};
// So many Advances at that distance are a stream of them, and more are to come.
constexpr int kDense = 16;
// Between two looks at the clock.
constexpr int kSpins = 64;
// Looks for the end of the helper's last part that mean it has lost its core: several hundred microseconds.
constexpr int kLongWait = 1 << 14;

constexpr uint64_t Left(uint64_t first, uint64_t end) { return first << 32 | end; }
constexpr uint64_t First(uint64_t left) { return left >> 32; }
constexpr uint64_t End(uint64_t left) { return left & 0xffffffff; }

}  // namespace

Helper::Helper() : thread_([this] { Serve(); }) {}

Helper::~Helper() {
  leaving_.store(true);
  Wake();
  thread_.join();
}

void Helper::Share(size_t parts, Part part, const void* context) {
  part_ = part;
  context_ = context;
  finished_.store(0, std::memory_order_relaxed);
  left_.store(Left(0, parts), std::memory_order_release);
  size_t mine = 0;
  for (size_t k = 0; TakeFirst(k); ++mine) part(context, k);
  WaitForParts(parts - mine);
}

// The helper is at its last part; longer than this it does not take unless it has lost its core.
void Helper::WaitForParts(size_t parts) {
  for (int spins = 1; finished_.load(std::memory_order_acquire) != parts; ++spins) {
    hwy::Pause();
    if (spins % kLongWait == 0) std::this_thread::yield();
  }
}

bool Helper::TakeFirst(size_t& part) {
  uint64_t left = left_.load(std::memory_order_relaxed);
  while (First(left) < End(left)) {
    part = static_cast<size_t>(First(left));
    if (left_.compare_exchange_weak(left, Left(First(left) + 1, End(left)), std::memory_order_relaxed)) return true;
  }
  return false;
}

// Which parts these are may have changed since `left` was read; taking one makes sure of the present ones.
bool Helper::TakeLast() {
  uint64_t left = left_.load(std::memory_order_relaxed);
  if (First(left) >= End(left)) return false;
  if (!left_.compare_exchange_strong(left, Left(First(left), End(left) - 1), std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return true;
  }
  part_(context_, static_cast<size_t>(End(left) - 1));
  parts_taken_.fetch_add(1, std::memory_order_relaxed);
  finished_.fetch_add(1, std::memory_order_release);
  return true;
}

void Helper::Wake() {
  bell_.fetch_add(1);
  bell_.notify_one();
}

void Helper::Serve() {
  auto last_work = Clock::now();
  for (int spins = 1; !leaving_.load(std::memory_order_relaxed); ++spins) {
    if (TakeLast()) {
      spins = 0;
      last_work = Clock::now();
      continue;
    }
    hwy::Pause();
    if (spins % kSpins != 0) continue;
    // Between the parts of the Advance that holds it there are only short stretches that cannot be shared.
    if (held_.load(std::memory_order_relaxed) && IsLastRunning()) continue;
    if (Clock::now() - last_work < kLookOut) continue;
    Sleep();
    last_work = Clock::now();
  }
}

void Helper::Sleep() {
  const uint32_t rung = bell_.load();
  asleep_.store(true);
  if (!leaving_.load()) bell_.wait(rung);
  asleep_.store(false);
}

// Wakes the helper where that pays.
void Helper::Expect(int64_t work, Clock::time_point now) {
  if (!asleep_.load(std::memory_order_relaxed)) return;
  dense_ = now - last_end_ < kLookOut ? dense_ + 1 : 0;
  if (work < kWorthWaking && dense_ < kDense) return;
  dense_ = 0;
  Wake();
}

Team::Team(Helper* helper, int64_t work, bool may_share, HelpRecord* record)
    : helper_(helper), record_(record), work_(work) {
  if (helper_ == nullptr) return;
  const bool only = helper_->running_.fetch_add(1, std::memory_order_relaxed) == 0;
  if (!only || !may_share || helper_->held_.exchange(true, std::memory_order_acquire)) return;
  holds_ = true;
  began_ = Helper::Clock::now();
  taken_before_ = helper_->parts_taken();
  may_help_ = record_ == nullptr || record_->MayHelp(began_);
  if (may_help_) helper_->Expect(work, began_);
}

Team::~Team() {
  if (helper_ == nullptr) return;
  if (holds_) {
    const auto now = helper_->last_end_ = Helper::Clock::now();
    const std::chrono::duration<double> took = now - began_;
    if (record_ != nullptr) record_->Ran(WasHelped(), took.count() / static_cast<double>(work_ + 1), now);
    helper_->held_.store(false, std::memory_order_release);
  }
  helper_->running_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace rnnserve::cpu
