// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/helper.h"

#include <hwy/cache_control.h>

#include <utility>

namespace rnnserve::cpu {
namespace {

// About 50 us of one core; less is over before a sleeping thread has come.
constexpr int64_t kWorthWaking = 1'000'000;
// How long the helper looks out for the next Advance; and where the last one was worth waking it for and came no later
// than that after the one before, as a lone caller's do. The next one finds it awake then, also after one that ran
// alone: of a call of 100 us, waking up takes 30 us and more.
constexpr std::chrono::microseconds kLookOut{20}, kLongLookOut{400};
// A helper that lost its CPU for so long while it looked out has neighbours, which it leaves the CPU to for a while:
// Advances that begin then are alone. The process has a share of the CPUs, and what two threads spend of it one lacks
// later. Busy processes keep it for a turn of the kernel's, 4 ms and more with HZ = 250; what a machine does anyway, up
// to 2.8.
constexpr std::chrono::microseconds kLost{3000};
constexpr std::chrono::milliseconds kLeaves{500};
// So many Advances at that distance are a stream of them, and more are to come.
constexpr int kDense = 16;
// Between two looks at the clock.
constexpr int kSpins = 64;
// Looks for the end of the other thread's part that mean it has lost its core: several hundred microseconds.
constexpr int kLongWait = 1 << 14;
// Looks before asking whether the other thread waits for this very CPU.
constexpr int kSuspicion = 1 << 8;
// Looks for the end of the other half of a step before asking whether it was begun at all.
constexpr int64_t kPatience = 16;
constexpr int64_t kForever = 0;

constexpr uint64_t Left(uint64_t first, uint64_t end) { return first << 32 | end; }
constexpr uint64_t First(uint64_t left) { return left >> 32; }
constexpr uint64_t End(uint64_t left) { return left & 0xffffffff; }

// Until `count` is `least`, or for so many looks; whether it is. The other thread is at work on it and takes no longer
// than a part takes unless it has lost its core. Now and then `is_suspicious` sees to that.
template <typename IsSuspicious>
bool WaitFor(const std::atomic<uint64_t>& count, uint64_t least, int64_t looks, const IsSuspicious& is_suspicious) {
  for (int64_t look = 1; count.load(std::memory_order_acquire) < least; ++look) {
    if (look == looks) return false;
    hwy::Pause();
    if (look % kSuspicion == 0) is_suspicious();
    if (look % kLongWait == 0) std::this_thread::yield();
  }
  return true;
}

}  // namespace

Helper::Helper() : thread_([this] { Serve(); }) {}

Helper::~Helper() {
  leaving_.store(true);
  Wake();
  thread_.join();
}

bool Helper::WaitForHelper(const std::atomic<uint64_t>& count, uint64_t least, int64_t looks) {
  return WaitFor(count, least, looks, [this] {
    if (own_cpu_.IsHere()) std::this_thread::yield();  // it ends its part, and leaves
  });
}

void Helper::WaitForCaller(const std::atomic<uint64_t>& count, uint64_t least) {
  WaitFor(count, least, kForever, [this] { caller_cpu_.KeepOff(); });
}

void Helper::Share(size_t parts, Part part, const void* context) {
  part_ = part;
  context_ = context;
  caller_cpu_.Note();
  const uint64_t before = parts_taken_.load(std::memory_order_relaxed);
  left_.store(Left(1, parts), std::memory_order_release);
  size_t mine = 1;
  part(context, 0);
  for (size_t k = 0; TakeFirst(k); ++mine) part(context, k);
  WaitForHelper(parts_taken_, before + parts - mine, kForever);
}

bool Helper::TakeFirst(size_t& part) {
  uint64_t left = left_.load(std::memory_order_relaxed);
  while (First(left) < End(left)) {
    part = static_cast<size_t>(First(left));
    if (left_.compare_exchange_weak(left, Left(First(left) + 1, End(left)), std::memory_order_relaxed)) return true;
  }
  return false;
}

void Helper::RunHalf(size_t half, uint64_t phase, Part part, const void* context) {
  if (half == 0) {
    part(context, 0);
    first_done_.store(phase + 1, std::memory_order_release);
    if (WaitForHelper(second_done_, phase + 1, kPatience)) return;
  } else {
    WaitForCaller(first_done_, phase);
  }
  uint64_t taken = phase;
  if (second_taken_.compare_exchange_strong(taken, phase + 1, std::memory_order_relaxed)) {
    part(context, 1);
    second_done_.store(phase + 1, std::memory_order_release);
  } else {
    half == 0 ? void(WaitForHelper(second_done_, phase + 1, kForever)) : WaitForCaller(second_done_, phase + 1);
  }
}

// Which parts these are may have changed since `left` was read; taking one makes sure of the present ones.
bool Helper::TakeLast() {
  uint64_t left = left_.load(std::memory_order_relaxed);
  if (First(left) >= End(left)) return false;
  if (caller_cpu_.KeepOff()) return true;
  own_cpu_.Note();
  if (!left_.compare_exchange_strong(left, Left(First(left), End(left) - 1), std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return true;
  }
  part_(context_, static_cast<size_t>(End(left) - 1));
  parts_taken_.store(parts_taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return true;
}

void Helper::Wake() {
  bell_.fetch_add(1);
  bell_.notify_one();
}

void Helper::Serve() {
  auto last_work = Clock::now(), last_look = last_work;
  for (int spins = 1;; ++spins) {
    if (TakeLast()) {
      spins = 0;
      last_look = last_work = Clock::now();
      continue;
    }
    hwy::Pause();
    if (spins % kSpins != 0) continue;
    const bool is_beside = held_.load(std::memory_order_relaxed) && caller_cpu_.IsHere();
    if (is_beside && !caller_cpu_.KeepOff()) std::this_thread::yield();
    if (leaving_.load(std::memory_order_relaxed)) return;
    const auto now = Clock::now();
    const bool is_lost = now - std::exchange(last_look, now) > kLost && !is_beside;
    if (is_lost && parts_taken() > 0) away_until_.store(now + kLeaves, std::memory_order_relaxed);
    // Between the parts of the Advance that holds it there are only short stretches that cannot be shared.
    const bool is_there = IsThere(now);
    if (is_there && held_.load(std::memory_order_relaxed) && IsLastRunning()) continue;
    const bool is_long = is_there && is_patient_.load(std::memory_order_relaxed);
    if (now - last_work < (is_long ? kLongLookOut : kLookOut)) continue;
    Sleep();
    spins = 0;
    last_look = last_work = Clock::now();
  }
}

void Helper::Sleep() {
  const uint32_t rung = bell_.load();
  asleep_.store(true);
  if (!leaving_.load()) bell_.wait(rung);
  if (const auto mask = std::exchange(mask_, std::nullopt)) SeenCpu::Restore(*mask);
}

// Several callers call: each core has work, and none waits for the next Advance.
void Helper::ExpectNone() {
  if (is_patient_.load(std::memory_order_relaxed)) is_patient_.store(false, std::memory_order_relaxed);
}

// Wakes the helper where that pays, and tells it how long to look out afterwards.
void Helper::Expect(int64_t work, Clock::time_point now) {
  const auto apart = now - last_end_;
  // Else it is the next slice or layer of the same call.
  if (apart >= kLookOut) is_patient_.store(work >= kWorthWaking && apart < kLongLookOut, std::memory_order_relaxed);
  if (!asleep_.load(std::memory_order_acquire)) return;
  dense_ = apart < kLookOut ? dense_ + 1 : 0;
  if (work < kWorthWaking && dense_ < kDense) return;
  dense_ = 0;
  asleep_.store(false, std::memory_order_relaxed);
  mask_ = caller_cpu_.KeepOff(thread_.native_handle());
  Wake();
}

Team::Team(Helper* helper, int64_t work, bool may_share, HelpRecord* record)
    : helper_(helper), record_(record), work_(work) {
  if (helper_ == nullptr) return;
  const bool only = helper_->running_.fetch_add(1, std::memory_order_relaxed) == 0;
  if (!only || !may_share || helper_->held_.exchange(true, std::memory_order_acquire)) {
    helper_->ExpectNone();
    return;
  }
  holds_ = true;
  helper_->caller_cpu_.Note();  // before the helper wakes up, perhaps beside it
  began_ = Helper::Clock::now();
  taken_before_ = helper_->parts_taken();
  if (!helper_->IsThere(began_)) {
    // What the run takes beside neighbours is not told.
    if (record_ != nullptr) std::exchange(record_, nullptr)->HelperIsAway();
    return;
  }
  may_help_ = record_ == nullptr || record_->MayHelp(began_);
  if (may_help_) helper_->Expect(work, began_);
}

Team::~Team() {
  if (helper_ == nullptr || in_step_) return;
  if (holds_) {
    const auto now = helper_->last_end_ = Helper::Clock::now();
    const std::chrono::duration<double> took = now - began_;
    if (record_ != nullptr) record_->Ran(WasHelped(), took.count(), static_cast<double>(work_ + 1), now);
    helper_->held_.store(false, std::memory_order_release);
  }
  helper_->running_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace rnnserve::cpu
