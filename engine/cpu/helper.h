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
// with other things one thread is faster than two. HelpRecord measures which is faster here.
//
// The helper is for one Advance at a time, and only while that is the only one and its workspace is_alone: where
// several run, or several callers wait, each core has work. Waking a thread takes longer than a small cell's step, so
// it is woken for large ones or for Advances that follow each other closely, and it looks out for the next one for some
// microseconds before it sleeps again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "engine/cpu/help_record.h"

namespace rnnserve::cpu {

class Helper {
 public:
  Helper();
  ~Helper();  // no Team uses it any more
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // Parts that this thread has taken, for tests.
  int64_t parts_taken() const { return parts_taken_.load(std::memory_order_relaxed); }

 private:
  friend class Team;
  using Clock = std::chrono::steady_clock;
  using Part = void (*)(const void* context, size_t part);

  // On the thread of the Team that holds the helper.
  void Expect(int64_t work, Clock::time_point now);
  void Share(size_t parts, Part part, const void* context);
  bool TakeFirst(size_t& part);
  void Wake();
  void WaitForParts(size_t parts);
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
  alignas(64) std::atomic<uint64_t> finished_{0};  // parts shared now that the helper has done
  alignas(64) std::atomic<int64_t> running_{0};    // Teams alive
  std::atomic<bool> held_{false};                  // by a Team
  std::atomic<bool> asleep_{false};
  std::atomic<uint32_t> bell_{0};
  std::atomic<bool> leaving_{false};
  std::atomic<int64_t> parts_taken_{0};
  // Of the Team that holds it.
  Clock::time_point last_end_;
  int dense_ = 0;  // Advances in a row that followed the last one closely
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

  // What the parts wrote is visible when it returns.
  template <typename Part>
  void Run(size_t parts, const Part& part) {
    if (parts > 1 && IsShared()) {
      helper_->Share(
          parts, [](const void* context, size_t k) { (*static_cast<const Part*>(context))(k); }, &part);
      return;
    }
    for (size_t k = 0; k < parts; ++k) part(k);
  }

 private:
  Helper* const helper_ = nullptr;
  HelpRecord* const record_ = nullptr;
  const int64_t work_ = 0;
  bool holds_ = false;
  bool may_help_ = false;
  int64_t taken_before_ = 0;
  Helper::Clock::time_point began_;
};

}  // namespace rnnserve::cpu
