// SPDX-License-Identifier: Apache-2.0
#include "server/batching/request_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "absl/time/clock.h"
#include "server/batching/retry_delay.h"
#include "tests/server/batching/fake_program.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;

struct Line {
  explicit Line(size_t steps) : x(steps, 1.0f), y(steps, -1.0f) {}
  std::vector<float> x, y;
  FakeState after;
};

std::future<ScheduleOutcome> Send(RequestScheduler& scheduler, const ProgramPtr& program, Line& line,
                                  absl::Time deadline = absl::InfiniteFuture()) {
  SequenceSlice slice;
  slice.x = reinterpret_cast<const std::byte*>(line.x.data());
  slice.y = reinterpret_cast<std::byte*>(line.y.data());
  slice.x_stride = slice.y_stride = sizeof(float);
  slice.steps = static_cast<int64_t>(line.x.size());
  slice.after = &line.after;
  auto promise = std::make_shared<std::promise<ScheduleOutcome>>();
  Submission submission;
  submission.tasks = {{program, slice}};
  submission.deadline = deadline;
  submission.done = [promise](ScheduleOutcome outcome) { promise->set_value(std::move(outcome)); };
  EXPECT_TRUE(scheduler.Schedule(std::move(submission)).ok());
  return promise->get_future();
}

// What runs when four requests, three of them of equal shape, wait for the only worker.
std::vector<size_t> SlicesOf(bool shares) {
  std::promise<void> entered, open;
  std::shared_future<void> is_open = open.get_future().share();
  const auto gate = std::make_shared<FakeProgram>(FakeProgram::Hooks{.before_slice = [&] {
    entered.set_value();
    is_open.wait();
    return absl::OkStatus();
  }});
  const auto program = std::make_shared<FakeProgram>();
  std::vector<Line> lines = {Line(1), Line(3), Line(5), Line(3), Line(3)};
  std::vector<std::future<ScheduleOutcome>> outcomes;
  RequestScheduler scheduler({.workers = 1, .shares = shares});
  outcomes.push_back(Send(scheduler, gate, lines[0]));
  entered.get_future().wait();
  for (size_t k = 1; k < lines.size(); ++k) outcomes.push_back(Send(scheduler, program, lines[k]));
  auto expired = Send(scheduler, program, lines[0], absl::Now() - absl::Seconds(1));
  open.set_value();
  for (auto& outcome : outcomes) EXPECT_TRUE(outcome.get().status.ok());
  EXPECT_EQ(expired.get().status.code(), absl::StatusCode::kDeadlineExceeded);
  for (size_t k = 1; k < lines.size(); ++k) EXPECT_EQ(lines[k].after.h, static_cast<float>(lines[k].x.size()));
  return program->slice_rows();
}

TEST(RequestScheduler, BoundsWhatWaitsOrRunsInSequencesAndBytes) {
  std::promise<void> entered, open;
  std::shared_future<void> is_open = open.get_future().share();
  const auto gate = std::make_shared<FakeProgram>(FakeProgram::Hooks{.before_slice = [&] {
    entered.set_value();
    is_open.wait();
    return absl::OkStatus();
  }});
  RequestScheduler scheduler({.workers = 1, .max_sequences = 3, .max_bytes = 100});
  Line running(1);
  auto outcome = Send(scheduler, gate, running);
  entered.get_future().wait();
  EXPECT_EQ(scheduler.load().sequences, 1);
  const auto send = [&](size_t sequences, int64_t bytes) {
    Submission submission;
    submission.tasks.resize(sequences, {gate, {}});
    submission.tenant = 7;
    submission.bytes = bytes;
    submission.done = [](ScheduleOutcome) {};
    return scheduler.Schedule(std::move(submission));
  };
  EXPECT_TRUE(absl::IsResourceExhausted(send(3, 1)));
  EXPECT_TRUE(send(1, 60).ok());
  EXPECT_EQ(scheduler.load().bytes, 60);
  const absl::Status full = send(1, 41);
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_TRUE(RetryDelayOf(full));
  scheduler.Abort();
  EXPECT_EQ(scheduler.load().sequences, 1);
  open.set_value();
  EXPECT_TRUE(outcome.get().status.ok());
  EXPECT_EQ(scheduler.load().sequences, 0);
}

TEST(RequestScheduler, RunsOneByOne) { EXPECT_THAT(SlicesOf(false), ElementsAre(1, 1, 1, 1)); }

TEST(RequestScheduler, RunsEqualShapesTogether) { EXPECT_THAT(SlicesOf(true), ElementsAre(3, 1)); }

}  // namespace
}  // namespace rnnserve
