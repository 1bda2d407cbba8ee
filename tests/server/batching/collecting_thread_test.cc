// SPDX-License-Identifier: Apache-2.0
// A thread that collects requests and runs short slices itself: CellularScheduler::RunCollected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/steady_now.h"
#include "server/batching/cellular_scheduler.h"
#include "tests/base/others_sleep.h"
#include "tests/server/batching/line.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;

// Schedule wakes no worker here, but a worker that has just answered takes what it finds before it sleeps: tests that
// tell which thread runs a slice wait for the workers first.

// A program whose cost is known: it has run alone a few times.
std::shared_ptr<FakeProgram> KnownProgram(CellularScheduler& scheduler, FakeProgram::Hooks hooks = {}) {
  auto program = std::make_shared<FakeProgram>(std::move(hooks));
  for (int k = 0; k < 10; ++k) {
    Line line(1);
    std::future<ScheduleOutcome> outcome;
    EXPECT_TRUE(scheduler.Schedule(Of(program, {&line, 1}, outcome)).ok());
    EXPECT_TRUE(outcome.get().status.ok());
  }
  WaitUntilOthersSleep();
  return program;
}

TEST(CellularScheduler, RunsCollectedShortSlicesOnTheCallingThread) {
  CellularScheduler scheduler({.workers = 1}, {absl::Seconds(1)});
  const auto program = KnownProgram(scheduler);
  const size_t slices = program->slice_rows().size();
  scheduler.RunCollected(1);
  EXPECT_EQ(scheduler.collected(), 0);

  std::vector<Line> lines(3, Line(2));
  std::vector<std::thread::id> done_on;
  for (Line& line : lines) {
    Submission submission;
    submission.tasks = {line.Task(program)};
    submission.done = [&](ScheduleOutcome outcome) {
      EXPECT_EQ(outcome.largest_batch, 3);
      done_on.push_back(std::this_thread::get_id());
    };
    ASSERT_TRUE(scheduler.Schedule(std::move(submission)).ok());
  }
  EXPECT_EQ(scheduler.collected(), 3);
  EXPECT_EQ(program->slice_rows().size(), slices);  // no worker has been woken
  scheduler.RunCollected(1);
  EXPECT_THAT(done_on, testing::Each(std::this_thread::get_id()));
  EXPECT_EQ(done_on.size(), 3u);
  EXPECT_EQ(scheduler.collected(), 0);
  for (const Line& line : lines) EXPECT_THAT(line.y, ElementsAre(1, 2));
}

TEST(CellularScheduler, HasCollectedNothingOnceWhatFollowedHasRun) {
  CellularScheduler scheduler({.workers = 1}, {absl::Seconds(1)});
  const auto program = KnownProgram(scheduler);
  scheduler.RunCollected(1);
  // A thread that collects leaves what follows to the workers after 2 ms: if it has lost its CPU for so long, again.
  for (bool in_time = false; !in_time;) {
    WaitUntilOthersSleep();
    Line first(2), second(2);
    std::vector<std::thread::id> done_on;
    std::latch both(2);
    const auto submit = [&](Line& line, const std::function<void()>& then) {
      Submission submission;
      submission.tasks = {line.Task(program)};
      submission.done = [&, then](ScheduleOutcome) {
        done_on.push_back(std::this_thread::get_id());
        then();
        both.count_down();
      };
      EXPECT_TRUE(scheduler.Schedule(std::move(submission)).ok());
    };
    submit(first, [&] { submit(second, [] {}); });  // as the layers of a call
    const absl::Time begin = SteadyNow();
    scheduler.RunCollected(1);
    in_time = SteadyNow() - begin < absl::Milliseconds(2);
    const int64_t collected = scheduler.collected();
    both.wait();
    if (!in_time) continue;
    EXPECT_THAT(done_on, testing::Each(std::this_thread::get_id()));
    EXPECT_EQ(collected, 0);
  }
}

TEST(CellularScheduler, RefusesWhatItHasCollectedByDone) {
  CellularScheduler scheduler({.workers = 1, .max_sequences = 2}, {absl::Seconds(1)});
  const auto program = KnownProgram(scheduler);
  scheduler.RunCollected(1);
  const auto run = [&](std::vector<int> lengths) {
    std::vector<Line> lines(lengths.begin(), lengths.end());
    std::vector<std::future<ScheduleOutcome>> outcomes(lines.size());
    for (size_t k = 0; k < lines.size(); ++k) {
      EXPECT_TRUE(scheduler.Schedule(Of(program, {&lines[k], 1}, outcomes[k])).ok());
    }
    scheduler.RunCollected(1);
    std::vector<absl::StatusCode> codes;
    for (auto& outcome : outcomes) codes.push_back(outcome.get().status.code());
    return codes;
  };
  using enum absl::StatusCode;
  EXPECT_THAT(run({1, 2, 1}), ElementsAre(kOk, kOk, kResourceExhausted));
  EXPECT_THAT(run({1}), ElementsAre(kOk));
  scheduler.Abort();
  EXPECT_THAT(run({1, 1}), ElementsAre(kUnavailable, kUnavailable));
}

// Else a thread that waits for an outcome would wait for itself.
TEST(CellularScheduler, CollectsNoMoreOnAThreadThatDoesNotGoOn) {
  CellularScheduler scheduler({.workers = 1}, {absl::Seconds(1)});
  const auto program = KnownProgram(scheduler);
  scheduler.RunCollected(1);
  Line first(1), second(1);
  std::future<ScheduleOutcome> ran, waited_for;
  ASSERT_TRUE(scheduler.Schedule(Of(program, {&first, 1}, ran)).ok());
  scheduler.RunCollected(1, /*collects=*/false);
  EXPECT_TRUE(ran.get().status.ok());
  ASSERT_TRUE(scheduler.Schedule(Of(program, {&second, 1}, waited_for)).ok());
  EXPECT_EQ(scheduler.collected(), 0);
  EXPECT_TRUE(waited_for.get().status.ok());
}

// Whether the thread that collects runs a slice of `program` itself.
bool RunsHere(CellularScheduler& scheduler, ProgramPtr program, int64_t callers) {
  scheduler.RunCollected(callers);
  WaitUntilOthersSleep();
  Line line(2);
  std::promise<std::thread::id> done_on;
  Submission submission;
  submission.tasks = {line.Task(std::move(program))};
  submission.done = [&](ScheduleOutcome) { done_on.set_value(std::this_thread::get_id()); };
  EXPECT_TRUE(scheduler.Schedule(std::move(submission)).ok());
  scheduler.RunCollected(callers);
  return done_on.get_future().get() == std::this_thread::get_id();
}

TEST(CellularScheduler, LeavesCollectedLongSlicesToTheWorkers) {
  for (const absl::Duration short_slice : {absl::ZeroDuration(), absl::Nanoseconds(1)}) {
    CellularScheduler scheduler({.workers = 1}, {short_slice});
    EXPECT_FALSE(RunsHere(scheduler, KnownProgram(scheduler), /*callers=*/1));
  }
}

TEST(CellularScheduler, RunsLongerSlicesOnTheCollectingThreadTheFewerCallersCall) {
  const auto run_here = [](ShortSlices short_slices) {
    CellularScheduler scheduler({.workers = 1}, short_slices);
    const auto program = KnownProgram(scheduler);
    std::vector<bool> here;
    for (const int64_t callers : {1, 2, 3}) here.push_back(RunsHere(scheduler, program, callers));
    return here;
  };
  const absl::Duration none = absl::ZeroDuration();
  EXPECT_THAT(run_here({absl::Seconds(1), none, none}), ElementsAre(true, false, false));
  EXPECT_THAT(run_here({absl::Seconds(1), absl::Seconds(1), none}), ElementsAre(true, true, false));
  // What it costs to hand a row over counts where several call.
  EXPECT_THAT(run_here({absl::Seconds(1), absl::Nanoseconds(1), absl::Nanoseconds(1), absl::Seconds(1)}),
              ElementsAre(true, false, true));
}

// As the server makes it. A row of the fake program takes a microsecond or so.
TEST(CellularScheduler, RunsCollectedShortSlicesOnTheCallingThreadByDefault) {
  CellularScheduler scheduler({.workers = 1});
  const auto program = KnownProgram(scheduler);
  EXPECT_TRUE(RunsHere(scheduler, program, /*callers=*/1));
}

TEST(CellularScheduler, LeavesCollectedWorkOfDevicesToTheWorkers) {
  CellularScheduler scheduler({.workers = 1}, {absl::Seconds(1)});
  FakeProgram::Hooks hooks;
  hooks.waits = true;
  EXPECT_FALSE(RunsHere(scheduler, KnownProgram(scheduler, hooks), /*callers=*/1));
}

TEST(CellularScheduler, LeavesCollectedWorkOfUnknownCostToTheWorkers) {
  CellularScheduler scheduler({.workers = 1}, {absl::Seconds(1)});
  EXPECT_FALSE(RunsHere(scheduler, std::make_shared<FakeProgram>(), /*callers=*/1));
}

TEST(CellularScheduler, TellsTheEngineWhetherASliceIsAllThereIs) {
  CellularScheduler scheduler({.workers = 1});
  const auto program = std::make_shared<FakeProgram>();
  const auto run = [&](size_t submissions, int64_t callers) {
    std::vector<Line> lines(submissions, Line(1));
    std::vector<std::future<ScheduleOutcome>> outcomes(submissions);
    WaitUntilOthersSleep();
    for (size_t k = 0; k < submissions; ++k) {
      EXPECT_TRUE(scheduler.Schedule(Of(program, {&lines[k], 1}, outcomes[k])).ok());
    }
    scheduler.RunCollected(callers);
    for (auto& outcome : outcomes) EXPECT_EQ(outcome.get().largest_batch, submissions);
    return program->was_alone();
  };
  scheduler.RunCollected(1);
  EXPECT_TRUE(run(1, 1));
  EXPECT_TRUE(run(1, 2));
  EXPECT_FALSE(run(2, 2)) << "two callers' submissions";
  EXPECT_FALSE(run(1, 3)) << "others are about to come";
}

// Collecting is part of the time in the queue.
TEST(CellularScheduler, CountsTheTimeSinceTheFirstThatItHasCollected) {
  CellularScheduler scheduler({.workers = 1}, {absl::Seconds(1)});
  const auto program = KnownProgram(scheduler);
  scheduler.RunCollected(1);
  for (int round = 0; round < 2; ++round) {
    Line line(1);
    std::future<ScheduleOutcome> outcome;
    ASSERT_TRUE(scheduler.Schedule(Of(program, {&line, 1}, outcome)).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    scheduler.RunCollected(1);
    EXPECT_GE(outcome.get().queue_time, absl::Milliseconds(20));
  }
}

TEST(CellularScheduler, CollectingThreadsAndWorkersShareTheWork) {
  constexpr size_t kRounds = 200, kTogether = 8, kThreads = 3;
  CellularScheduler scheduler({.workers = 2}, {absl::Milliseconds(1)});
  const auto program = KnownProgram(scheduler);
  std::vector<Line> lines(kRounds * kTogether * kThreads, Line(3));
  std::latch all(kRounds * kTogether * kThreads);
  // Each thread sends every third line; the first one collects none.
  const auto send = [&](size_t thread) {
    if (thread > 0) scheduler.RunCollected(1);
    for (size_t k = 0; k < kRounds * kTogether; ++k) {
      Submission submission;
      submission.tasks = {lines[k * kThreads + thread].Task(program)};
      submission.done = [&](ScheduleOutcome outcome) {
        EXPECT_TRUE(outcome.status.ok());
        all.count_down();
      };
      EXPECT_TRUE(scheduler.Schedule(std::move(submission)).ok());
      if (thread > 0 && k % kTogether == 7) scheduler.RunCollected(1);
    }
  };
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) threads.emplace_back(send, thread);
  for (std::thread& thread : threads) thread.join();
  all.wait();
  for (const Line& line : lines) EXPECT_THAT(line.y, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace rnnserve
