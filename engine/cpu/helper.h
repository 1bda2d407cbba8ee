// SPDX-License-Identifier: Apache-2.0
// A second thread for work that a single thread would take long over, while nothing else runs. One for an engine.
//
//   Team team(helper, multiplications);             // of one Advance; alone where `helper` is null or not to be had
//   team.Run(8, [&](size_t k) { ... });             // part k of 8, each once, on either thread
//
// Both threads take parts from their own end until they meet, so each core keeps what it read last time in its cache,
// and a helper that is late, or was not scheduled at all, costs nothing: the caller takes the parts it did not. Which
// thread computes a part never shows in its result.
//
// A helper whose core was taken from it in the middle of a part keeps the caller waiting: on a machine that is busy
// with other things one thread is faster than two. HelpRecord measures which is faster here. A helper that loses its
// CPU while it looks out in vain is away for a while. It is woken off the caller's CPU, and leaves it where the kernel
// has put both threads there.
//
// The helper is for one Advance at a time, and only while that is the only one and its workspace is_alone: where
// several run, or several callers wait, each core has work. Waking a thread takes longer than a small cell's step, so
// it is woken for large ones or for Advances that follow each other closely, and it looks out for the next one before
// it sleeps again: for some microseconds, or longer where a lone caller's calls follow each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>

#include "base/seen_cpu.h"
#include "engine/cpu/help_record.h"

namespace rnnserve::cpu {

class Helper {
 public:
  Helper();
  ~Helper();  // no Team uses it any more
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // Parts that this thread has taken, for tests.
  int64_t parts_taken() const { return static_cast<int64_t>(parts_taken_.load(std::memory_order_relaxed)); }

 private:
  friend class Team;
  using Clock = std::chrono::steady_clock;
  using Part = void (*)(const void* context, size_t part);

  // On the thread of the Team that holds the helper.
  void Expect(int64_t work, Clock::time_point now);
  void ExpectNone();
  void Share(size_t parts, Part part, const void* context);
  bool TakeFirst(size_t& part);
  void RunHalf(size_t half, uint64_t phase, Part part, const void* context);
  bool WaitForHelper(const std::atomic<uint64_t>& count, uint64_t least, int64_t looks);
  void WaitForCaller(const std::atomic<uint64_t>& count, uint64_t least);
  void Wake();
  // Whether it has not left its CPU to neighbours.
  bool IsThere(Clock::time_point now) const { return now >= away_until_.load(std::memory_order_relaxed); }
  bool IsLastRunning() const { return running_.load(std::memory_order_relaxed) == 1; }

  // On the helper's own thread.
  void Serve();
  bool TakeLast();
  void Sleep();

  // Parts not yet taken, first << 32 | end; the thread that takes one changes it.
  alignas(64) std::atomic<uint64_t> left_{0};
  // Of the parts shared now. Written before left_, read after taking a part.
  Part part_ = nullptr;
  const void* context_ = nullptr;
  SeenCpu caller_cpu_;
  alignas(64) std::atomic<uint64_t> parts_taken_{0};  // all of them, done
  SeenCpu own_cpu_;
  // Of RunInStep: runs whose first half is done, whose second half is done, and whose second half was taken. Each on a
  // line of its own, and the caller seldom looks at the last one: each look costs a transfer between cores.
  alignas(64) std::atomic<uint64_t> first_done_{0};
  alignas(64) std::atomic<uint64_t> second_done_{0};
  alignas(64) std::atomic<uint64_t> second_taken_{0};
  alignas(64) std::atomic<int64_t> running_{0};  // Teams alive
  std::atomic<bool> held_{false};                // by a Team
  // Of the Team that holds it.
  Clock::time_point last_end_;
  int dense_ = 0;                                // Advances in a row that followed the last one closely
  alignas(64) std::atomic<bool> asleep_{false};  // and not rung for
  std::atomic<bool> is_patient_{false};
  std::atomic<Clock::time_point> away_until_{Clock::time_point::min()};
  // Its mask before that was narrowed to wake it off the caller's CPU. Written before bell_ rings.
  std::optional<cpu_set_t> mask_;
  std::atomic<uint32_t> bell_{0};
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

class Team {
 public:
  Team() = default;  // the calling thread alone
  // `work`: multiplications of the whole Advance, roughly. Without `may_share` its parts are not shared, and others
  // know that it runs.
  // `record`: of this kind of work; touched by one Team at a time. Null: help is always worth it.
  Team(Helper* helper, int64_t work, bool may_share = true, HelpRecord* record = nullptr);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Whether parts would be shared now; a hint against cutting work for nothing.
  bool IsShared() const { return may_help_ && helper_->IsLastRunning(); }
  // Whether the helper has taken a part so far.
  bool WasHelped() const { return holds_ && helper_->parts_taken() != taken_before_; }

  // Whether Run has to have two parts, of which each thread does its own.
  bool IsInStep() const { return in_step_; }

  // each(team, thread) on both threads, which call team.Run alike, with two parts: there each does its own and waits
  // for the other's. So they tell each other once a run, about 0.2 us, not three times. Where the helper is late the
  // caller does both parts.
  template <typename Each>
  void RunInStep(const Each& each) {
    helper_->first_done_.store(0, std::memory_order_relaxed);
    helper_->second_done_.store(0, std::memory_order_relaxed);
    helper_->second_taken_.store(0, std::memory_order_relaxed);
    Run(2, [&](size_t half) {
      Team own(*helper_, half);
      each(own, half);
    });
  }

  // What the parts wrote is visible when it returns.
  template <typename Part>
  void Run(size_t parts, const Part& part) {
    const auto call = [](const void* context, size_t k) { (*static_cast<const Part*>(context))(k); };
    if (in_step_) return helper_->RunHalf(half_, runs_++, call, &part);
    if (parts > 1 && IsShared()) return helper_->Share(parts, call, &part);
    for (size_t k = 0; k < parts; ++k) part(k);
  }

 private:
  Team(Helper& helper, size_t half) : helper_(&helper), in_step_(true), half_(half) {}

  Helper* const helper_ = nullptr;
  HelpRecord* record_ = nullptr;  // null as well while the helper is away
  const int64_t work_ = 0;
  bool holds_ = false;
  bool may_help_ = false;
  int64_t taken_before_ = 0;
  Helper::Clock::time_point began_;
  const bool in_step_ = false;
  const size_t half_ = 0;
  uint64_t runs_ = 0;
};

}  // namespace rnnserve::cpu
