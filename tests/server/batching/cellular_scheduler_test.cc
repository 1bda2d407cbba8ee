// SPDX-License-Identifier: Apache-2.0
#include "server/batching/cellular_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <future>
#include <latch>
#include <numeric>

#include "absl/time/clock.h"
#include "base/retry_delay.h"
#include "tests/server/batching/line.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A program whose first slice waits until the test lets it go.
struct Gate {
  std::promise<void> entered, open;
  std::shared_future<void> is_open = open.get_future().share();
  std::atomic<bool> used = false;
  ProgramPtr program = std::make_shared<FakeProgram>(FakeProgram::Hooks{.before_slice = [this] {
    if (used.exchange(true)) return absl::OkStatus();
    entered.set_value();
    is_open.wait();
    return absl::OkStatus();
  }});
};

// Keeps the only worker of a scheduler busy until the gate opens.
struct BusyWorker {
  explicit BusyWorker(CellularScheduler& scheduler) {
    EXPECT_TRUE(scheduler.Schedule(Of(gate.program, {&line, 1}, outcome)).ok());
    gate.entered.get_future().wait();
  }
  // The worker writes to `line` until the outcome is there.
  ~BusyWorker() {
    if (!is_open) Open();
    outcome.wait();
  }
  void Open() {
    is_open = true;
    gate.open.set_value();
  }
  bool is_open = false;
  Gate gate;
  Line line{1};
  std::future<ScheduleOutcome> outcome;
};

std::vector<float> CountingUp(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(CellularScheduler, RunsSequencesOfDifferentLengthsToTheirEnds) {
  CellularScheduler scheduler({.workers = 1, .target_slice = absl::Microseconds(20)});
  const auto program = std::make_shared<FakeProgram>();
  std::vector<Line> lines = {Line(1), Line(100), Line(17), Line(16)};
  std::future<ScheduleOutcome> outcome;
  ASSERT_TRUE(scheduler.Schedule(Of(program, lines, outcome)).ok());

  const ScheduleOutcome result = outcome.get();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.largest_batch, 4);
  EXPECT_GE(result.queue_time, absl::ZeroDuration());
  for (const Line& line : lines) {
    EXPECT_EQ(line.y, CountingUp(line.y.size()));
    EXPECT_EQ(line.after.h, static_cast<float>(line.x.size()));
  }
  // Short slices; a sequence leaves at its end.
  EXPECT_EQ(program->slice_rows().front(), 4u);
  EXPECT_GT(program->slice_rows().size(), 1u);
}

TEST(CellularScheduler, StartsFromTheGivenStateAndLeavesItAlone) {
  CellularScheduler scheduler({.workers = 1, .target_slice = absl::Microseconds(20)});
  Line line(40);
  FakeState before;
  before.h = 7;
  std::future<ScheduleOutcome> outcome;
  Submission submission = Of(std::make_shared<FakeProgram>(), {&line, 1}, outcome);
  submission.tasks[0].slice.before = &before;
  ASSERT_TRUE(scheduler.Schedule(std::move(submission)).ok());
  EXPECT_TRUE(outcome.get().status.ok());
  EXPECT_EQ(line.after.h, 47);
  EXPECT_EQ(before.h, 7);
}

TEST(CellularScheduler, GroupsByProgramAndBoundsTheSequencesOfASlice) {
  CellularScheduler scheduler({.workers = 1, .max_slice_rows = 3});
  const auto first = std::make_shared<FakeProgram>();
  const auto second = std::make_shared<FakeProgram>();
  std::vector<Line> lines(9, Line(2));
  std::future<ScheduleOutcome> outcome;
  Submission submission = Of(first, lines, outcome);
  for (size_t k = 1; k < lines.size(); k += 2) submission.tasks[k].program = second;
  ASSERT_TRUE(scheduler.Schedule(std::move(submission)).ok());
  EXPECT_TRUE(outcome.get().status.ok());
  EXPECT_THAT(first->slice_rows(), ElementsAre(3, 2));
  EXPECT_THAT(second->slice_rows(), ElementsAre(3, 1));
  for (const Line& line : lines) EXPECT_THAT(line.y, ElementsAre(1, 2));
}

// Each of the two slices ends once the other one runs.
TEST(CellularScheduler, WhatOneSliceCannotHoldRunsOnAnotherWorker) {
  CellularScheduler scheduler({.workers = 2, .max_slice_rows = 1});
  std::barrier both(2);
  const auto program = std::make_shared<FakeProgram>(FakeProgram::Hooks{.before_slice = [&both] {
    both.arrive_and_wait();
    return absl::OkStatus();
  }});
  for (int round = 0; round < 20; ++round) {
    std::vector<Line> lines(2, Line(1));
    std::future<ScheduleOutcome> outcome;
    ASSERT_TRUE(scheduler.Schedule(Of(program, lines, outcome)).ok());
    EXPECT_TRUE(outcome.get().status.ok());
  }
}

TEST(CellularScheduler, SequencesOfDifferentSubmissionsShareSlices) {
  CellularScheduler scheduler({.workers = 1});
  BusyWorker busy(scheduler);
  const auto program = std::make_shared<FakeProgram>();
  std::vector<Line> lines = {Line(5), Line(1), Line(3)};
  std::vector<std::future<ScheduleOutcome>> outcomes(lines.size());
  for (size_t k = 0; k < lines.size(); ++k) {
    ASSERT_TRUE(scheduler.Schedule(Of(program, {&lines[k], 1}, outcomes[k])).ok());
  }
  busy.Open();
  for (auto& outcome : outcomes) {
    const ScheduleOutcome result = outcome.get();
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.largest_batch, 3);
  }
  EXPECT_THAT(program->slice_rows(), ElementsAre(3));
  for (const Line& line : lines) EXPECT_EQ(line.y, CountingUp(line.y.size()));
}

TEST(CellularScheduler, WaitsForOthersIfAskedTo) {
  CellularScheduler scheduler({.workers = 1, .max_slice_rows = 2, .max_batch_delay = absl::Hours(1)});
  const auto program = std::make_shared<FakeProgram>();
  std::vector<Line> lines(2, Line(1));
  std::vector<std::future<ScheduleOutcome>> outcomes(lines.size());
  for (size_t k = 0; k < lines.size(); ++k) {
    ASSERT_TRUE(scheduler.Schedule(Of(program, {&lines[k], 1}, outcomes[k])).ok());
  }
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.get().largest_batch, 2);
}

TEST(CellularScheduler, RefusesWhatDoesNotFitInTheQueue) {
  CellularScheduler scheduler({.workers = 1, .max_sequences = 3});
  BusyWorker busy(scheduler);
  const auto program = std::make_shared<FakeProgram>();
  std::vector<Line> waiting(2, Line(1));
  std::future<ScheduleOutcome> waited;
  ASSERT_TRUE(scheduler.Schedule(Of(program, waiting, waited)).ok());
  EXPECT_EQ(scheduler.load().sequences, 3);

  Line refused(1);
  std::future<ScheduleOutcome> never;
  const absl::Status status = scheduler.Schedule(Of(program, {&refused, 1}, never));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GE(RetryDelayOf(status).value_or(absl::ZeroDuration()), absl::Milliseconds(1));
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 of 3 sequences"));

  Line next_layer(1);
  std::future<ScheduleOutcome> went_on;
  Submission part = Of(program, {&next_layer, 1}, went_on);
  part.goes_on = true;
  ASSERT_TRUE(scheduler.Schedule(std::move(part)).ok()) << "a part of what was let in before";

  busy.Open();
  EXPECT_TRUE(waited.get().status.ok());
  EXPECT_TRUE(went_on.get().status.ok());
  EXPECT_EQ(refused.y[0], -1);
}

TEST(CellularScheduler, RunsASubmissionLargerThanTheQueueWhenNothingWaits) {
  CellularScheduler scheduler({.workers = 1, .max_sequences = 2});
  std::vector<Line> lines(5, Line(1));
  std::future<ScheduleOutcome> outcome;
  ASSERT_TRUE(scheduler.Schedule(Of(std::make_shared<FakeProgram>(), lines, outcome)).ok());
  EXPECT_TRUE(outcome.get().status.ok());
}

TEST(CellularScheduler, RunsTheHighestPriorityFirstAndTheOldestWithinOne) {
  CellularScheduler scheduler({.workers = 1});
  BusyWorker busy(scheduler);
  std::vector<int> order;  // touched by the only worker
  std::latch all(4);
  std::vector<Line> lines(4, Line(1));
  const std::vector<int32_t> priorities = {0, -5, 100, 0};
  for (size_t k = 0; k < lines.size(); ++k) {
    Submission submission;
    submission.tasks = {lines[k].Task(std::make_shared<FakeProgram>())};
    submission.priority = priorities[k];
    submission.done = [&, k](ScheduleOutcome) {
      order.push_back(static_cast<int>(k));
      all.count_down();
    };
    ASSERT_TRUE(scheduler.Schedule(std::move(submission)).ok());
  }
  busy.Open();
  all.wait();
  EXPECT_THAT(order, ElementsAre(2, 0, 3, 1));
}

TEST(CellularScheduler, AnswersCancelledAndExpiredWorkWithoutTheEngine) {
  CellularScheduler scheduler({.workers = 1});
  BusyWorker busy(scheduler);
  const auto program = std::make_shared<FakeProgram>();
  Line cancelled_line(1), expired_line(1);
  std::future<ScheduleOutcome> cancelled, expired;

  const auto flag = std::make_shared<std::atomic<bool>>(false);
  Submission submission = Of(program, {&cancelled_line, 1}, cancelled);
  submission.cancelled = flag;
  ASSERT_TRUE(scheduler.Schedule(std::move(submission)).ok());
  submission = Of(program, {&expired_line, 1}, expired);
  submission.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(scheduler.Schedule(std::move(submission)).code(), absl::StatusCode::kDeadlineExceeded);

  flag->store(true);
  busy.Open();
  EXPECT_EQ(cancelled.get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(program->slice_rows().empty());
}

TEST(CellularScheduler, StopsRunningWorkBetweenSlices) {
  CellularScheduler scheduler({.workers = 1, .target_slice = absl::Microseconds(20)});
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  const auto program = std::make_shared<FakeProgram>(FakeProgram::Hooks{.before_slice = [flag] {
    flag->store(true);
    return absl::OkStatus();
  }});
  Line line(1000);
  std::future<ScheduleOutcome> outcome;
  Submission submission = Of(program, {&line, 1}, outcome);
  submission.cancelled = flag;
  ASSERT_TRUE(scheduler.Schedule(std::move(submission)).ok());
  EXPECT_EQ(outcome.get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(program->slice_rows(), ElementsAre(1));
}

TEST(CellularScheduler, PassesOnTheEnginesError) {
  CellularScheduler scheduler({.workers = 1});
  const auto program = std::make_shared<FakeProgram>(
      FakeProgram::Hooks{.before_slice = [] { return absl::InternalError("the device is gone"); }});
  Line line(1);
  std::future<ScheduleOutcome> outcome;
  ASSERT_TRUE(scheduler.Schedule(Of(program, {&line, 1}, outcome)).ok());
  EXPECT_EQ(outcome.get().status, absl::InternalError("the device is gone"));
}

TEST(CellularScheduler, OnlyWhatIsTooLargeForTheMemoryFails) {
  CellularScheduler scheduler({.workers = 1});
  const auto program = std::make_shared<FakeProgram>(FakeProgram::Hooks{.waits = false, .allocate = [](size_t rows) {
                                                                          if (rows > 2) throw std::bad_alloc();
                                                                        }});
  std::vector<Line> large(5, Line(3)), small(2, Line(4));
  std::future<ScheduleOutcome> large_outcome, small_outcome;
  {
    BusyWorker busy(scheduler);  // so that both share a slice
    ASSERT_TRUE(scheduler.Schedule(Of(program, large, large_outcome)).ok());
    ASSERT_TRUE(scheduler.Schedule(Of(program, small, small_outcome)).ok());
  }
  const ScheduleOutcome failed = large_outcome.get();
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(failed.status.message()), HasSubstr("memory"));
  const ScheduleOutcome answered = small_outcome.get();
  EXPECT_TRUE(answered.status.ok()) << answered.status;
  EXPECT_EQ(answered.largest_batch, 7);
  EXPECT_EQ(small[1].after.h, 4);
  EXPECT_EQ(scheduler.load().sequences, 0);
}

// A workspace may hold packed weights, or a device's memory.
struct WatchedWorkspace final : Workspace {
  explicit WatchedWorkspace(std::promise<void>* told) : gone(told) {}
  ~WatchedWorkspace() override { gone->set_value(); }
  std::promise<void>* gone;
};

TEST(CellularScheduler, AnIdleWorkerLetsGoOfWhatProgramsHaveLeft) {
  std::promise<void> gone;
  CellularScheduler scheduler({.workers = 1});
  FakeProgram::Hooks hooks;
  hooks.make_workspace = [&] { return std::make_unique<WatchedWorkspace>(&gone); };
  {
    Line line(1);
    std::future<ScheduleOutcome> outcome;
    ASSERT_TRUE(scheduler.Schedule(Of(std::make_shared<FakeProgram>(std::move(hooks)), {&line, 1}, outcome)).ok());
    ASSERT_TRUE(outcome.get().status.ok());
  }
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
}

TEST(CellularScheduler, FinishesQueuedWorkBeforeItGoes) {
  std::vector<Line> lines(50, Line(20));
  std::vector<std::future<ScheduleOutcome>> outcomes(lines.size());
  {
    CellularScheduler scheduler({.workers = 2});
    const auto program = std::make_shared<FakeProgram>();
    for (size_t k = 0; k < lines.size(); ++k) {
      ASSERT_TRUE(scheduler.Schedule(Of(program, {&lines[k], 1}, outcomes[k])).ok());
    }
  }
  for (auto& outcome : outcomes) EXPECT_TRUE(outcome.get().status.ok());
  for (const Line& line : lines) EXPECT_EQ(line.y, CountingUp(20));
}

TEST(CellularScheduler, AbortFailsQueuedAndLaterWork) {
  CellularScheduler scheduler({.workers = 1});
  BusyWorker busy(scheduler);
  Line line(1), late(1);
  std::future<ScheduleOutcome> outcome, never;
  const auto program = std::make_shared<FakeProgram>();
  ASSERT_TRUE(scheduler.Schedule(Of(program, {&line, 1}, outcome)).ok());
  scheduler.Abort();
  EXPECT_EQ(scheduler.Schedule(Of(program, {&late, 1}, never)).code(), absl::StatusCode::kUnavailable);
  busy.Open();
  EXPECT_EQ(outcome.get().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(program->slice_rows().empty());
}

TEST(CellularScheduler, MayBeCalledFromManyThreadsAndFromCompletions) {
  constexpr int kThreads = 4, kCalls = 50;
  const auto program = std::make_shared<FakeProgram>();
  std::vector<Line> lines(2 * kThreads * kCalls, Line(3));
  std::latch all(2 * kThreads * kCalls);
  CellularScheduler scheduler({.workers = 3});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int call = 0; call < kCalls; ++call) {
        Line* pair = &lines[static_cast<size_t>(2 * (thread * kCalls + call))];
        Submission first;
        first.tasks = {pair[0].Task(program)};
        first.done = [&, pair](ScheduleOutcome) {
          Submission second;
          second.tasks = {pair[1].Task(program)};
          second.done = [&](ScheduleOutcome) { all.count_down(); };
          EXPECT_TRUE(scheduler.Schedule(std::move(second)).ok());
          all.count_down();
        };
        EXPECT_TRUE(scheduler.Schedule(std::move(first)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  all.wait();
  for (const Line& line : lines) EXPECT_THAT(line.y, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace rnnserve
