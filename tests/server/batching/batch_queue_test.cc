// SPDX-License-Identifier: Apache-2.0
// Single rules of the policy that the simulation cannot single out.
#include "server/batching/batch_queue.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <optional>

#include "tests/server/batching/fake_program.h"

namespace rnnserve {
namespace {

constexpr int64_t kSteps = 4;

class BatchQueueTest : public testing::Test {
 protected:
  // One sequence that may take `patience`.
  Submission Make(absl::Duration patience) {
    Submission submission;
    SequenceSlice slice;
    slice.x = reinterpret_cast<const std::byte*>(&x_);
    slice.steps = kSteps;
    slice.after = &states_.emplace_back();
    submission.tasks.push_back({program_, slice, 1});
    submission.deadline = now_ + patience;
    return submission;
  }

  bool Takes(absl::Duration patience) {
    Submission submission = Make(patience);
    return queue_.Add(submission, now_).ok();
  }

  // Runs what waits, `step` a step; how many sequences ended well.
  int Run(absl::Duration step) {
    while (std::optional<Slice> slice = queue_.Form(now_, 1, finished_)) {
      const absl::Duration took = step * slice->steps;
      now_ += took;
      queue_.Complete(*std::move(slice), absl::OkStatus(), absl::ToDoubleSeconds(took), now_, finished_);
    }
    int good = 0;
    for (const Job& job : finished_) good += job.outcome.status.ok() ? 1 : 0;
    finished_.clear();
    return good;
  }

  // Until the guess from before the first slice has faded.
  void GetSlow() {
    for (int k = 0; k < 1'000; ++k) {
      ASSERT_TRUE(Takes(absl::Hours(1)));
      ASSERT_EQ(Run(absl::Milliseconds(50)), 1);
    }
  }

  const ProgramPtr program_ = std::make_shared<FakeProgram>();
  const float x_ = 0;
  std::list<FakeState> states_;
  absl::Time now_ = absl::UnixEpoch();
  BatchQueue queue_{{.workers = 1}};
  BatchQueue::Finished finished_;
};

// A machine that was slow for a while must not be taken for slow for ever: what is refused says nothing about the cost.
TEST_F(BatchQueueTest, RefusalsByAnOldEstimateEndOnceTheMachineIsFastAgain) {
  GetSlow();
  EXPECT_FALSE(Takes(absl::Milliseconds(100)));

  int taken = 0, answered = 0;
  for (int k = 0; k < 10'000; ++k) {  // for 100 seconds, in which a step takes a millisecond
    now_ += absl::Milliseconds(10);
    taken += Takes(absl::Milliseconds(100)) ? 1 : 0;
    answered += Run(absl::Milliseconds(1));
  }
  EXPECT_EQ(answered, taken);
  EXPECT_GT(answered, 5'000);
}

// Where the estimate is right, hardly anything is computed in vain.
TEST_F(BatchQueueTest, ProbesOfAnOldEstimateAreRare) {
  GetSlow();
  int taken = 0;
  for (int k = 0; k < 10'000; ++k) {
    now_ += absl::Milliseconds(10);
    taken += Takes(absl::Milliseconds(100)) ? 1 : 0;
    Run(absl::Milliseconds(50));
  }
  EXPECT_LE(taken, 100);
}

// What waits for company until its deadline has passed would never be computed, however idle the server.
TEST_F(BatchQueueTest, ANearDeadlineIsNotSpentOnWaitingForOthers) {
  BatchQueue patient({.workers = 1, .max_batch_delay = absl::Milliseconds(50)});
  for (const int milliseconds : {20, 60}) {
    Submission submission = Make(absl::Milliseconds(milliseconds));
    ASSERT_TRUE(patient.Add(submission, now_).ok());
    std::optional<Slice> slice = patient.Form(now_, 1, finished_);
    ASSERT_TRUE(slice) << milliseconds;
    patient.Complete(*std::move(slice), absl::OkStatus(), 1e-6, now_, finished_);
  }
  Submission submission = Make(absl::Seconds(1));
  ASSERT_TRUE(patient.Add(submission, now_).ok());
  EXPECT_FALSE(patient.Form(now_, 1, finished_));
  EXPECT_EQ(patient.next_release(), now_ + absl::Milliseconds(50));
}

// A step takes as long as the target of a slice; so many of them run at once.
TEST_F(BatchQueueTest, ASliceIsLongerOnlyWhereThatDelaysNothingShort) {
  const auto steps_of_next = [&](absl::Duration patience) {
    Submission submission = Make(patience);
    submission.tasks.front().slice.steps = 40;
    EXPECT_TRUE(queue_.Add(submission, now_).ok());
    std::optional<Slice> slice = queue_.Form(now_, 1, finished_);
    const int64_t steps = slice->steps;
    queue_.Complete(*std::move(slice), absl::OkStatus(), 1e-3 * static_cast<double>(steps), now_, finished_);
    Run(absl::Milliseconds(1));
    return steps;
  };
  // Until the guess from before the first slice has faded.
  for (int k = 0; k < 1'000; ++k) steps_of_next(absl::InfiniteDuration());
  EXPECT_GT(steps_of_next(absl::Minutes(1)), 4);
  EXPECT_LE(steps_of_next(absl::Milliseconds(900)), 2) << "its deadline is near";

  ASSERT_TRUE(Takes(absl::InfiniteDuration()));  // of four steps
  Run(absl::Milliseconds(1));
  EXPECT_LE(steps_of_next(absl::InfiniteDuration()), 2) << "short ones come";
  now_ += absl::Seconds(2);
  EXPECT_GT(steps_of_next(absl::InfiniteDuration()), 4);

  now_ += absl::Seconds(2);
  Submission other = Make(absl::InfiniteDuration());
  other.tasks.front().program = std::make_shared<FakeProgram>();
  other.tasks.front().slice.steps = 40;
  other.priority = -1;
  ASSERT_TRUE(queue_.Add(other, now_).ok());
  EXPECT_LE(steps_of_next(absl::InfiniteDuration()), 2) << "another program waits";
}

// A step takes 50 us a row. Sixteen rows are as many as a slice should have: others could not join it.
TEST_F(BatchQueueTest, AFullSliceRunsOnAndOneWithRoomEndsForOthersToJoin) {
  const auto steps_of_next = [&](int rows, int64_t steps) {
    Submission submission = Make(absl::InfiniteDuration());
    submission.tasks.front().slice.steps = steps;
    submission.tasks.resize(static_cast<size_t>(rows), submission.tasks.front());
    for (SequenceTask& task : submission.tasks) task.slice.after = &states_.emplace_back();
    EXPECT_TRUE(queue_.Add(submission, now_).ok());
    int64_t first = 0;
    while (std::optional<Slice> slice = queue_.Form(now_, 1, finished_)) {
      if (first == 0) first = slice->steps;
      const absl::Duration took = absl::Microseconds(50) * slice->row_steps;
      now_ += took;
      queue_.Complete(*std::move(slice), absl::OkStatus(), absl::ToDoubleSeconds(took), now_, finished_);
    }
    finished_.clear();
    return first;
  };
  for (int k = 0; k < 1'000; ++k) steps_of_next(1 + k % 16, 40);  // until the guess from before has faded
  EXPECT_EQ(steps_of_next(16, 40), 32);
  EXPECT_EQ(steps_of_next(12, 40), 8) << "others could join at its end";
  EXPECT_EQ(steps_of_next(16, 32), 32);
  EXPECT_EQ(steps_of_next(16, 400), 32);
  EXPECT_EQ(steps_of_next(16, 10), 10);
  EXPECT_EQ(steps_of_next(16, 40), 20) << "sequences of 10 steps come, and would wait for the last ones";
  now_ += absl::Seconds(2);
  EXPECT_EQ(steps_of_next(16, 40), 32);
}

// As many rows as one tenant's, so no more than fit into a slice.
TEST_F(BatchQueueTest, WhatTheNextSliceTakesDoesNotGrowWithTheNumberOfTenants) {
  absl::Duration takes[2];
  for (const bool one_tenant : {false, true}) {
    BatchQueue queue({.workers = 1, .max_slice_rows = 16});
    for (int k = 0; k < 80; ++k) {
      Submission submission = Make(absl::InfiniteDuration());
      if (k >= 16) submission.caller_id = one_tenant ? 1 : static_cast<uint64_t>(k);
      ASSERT_TRUE(queue.Add(submission, now_).ok());
      if (k >= 16) continue;
      std::optional<Slice> slice = queue.Form(now_, 1, finished_);
      ASSERT_TRUE(slice);
      queue.Complete(*std::move(slice), absl::OkStatus(), 1e-5, now_, finished_);
    }
    takes[one_tenant] = queue.Next().takes;
    EXPECT_EQ(queue.Next().rows, 16);
  }
  EXPECT_LT(takes[0], absl::InfiniteDuration());
  EXPECT_EQ(takes[0], takes[1]);
}

// One turn of those that wait, and not one of all cells that there are: a crowd of rare ones may be endless.
TEST_F(BatchQueueTest, ACellThatIsAskedForAgainWaitsOneTurn) {
  constexpr int kWaiting = 20, kSlices = 600;
  BatchQueue queue({.workers = 1, .max_wait = absl::Hours(1)});
  const auto add = [&](const ProgramPtr& program) {
    Submission submission = Make(absl::InfiniteDuration());
    submission.tasks.front().program = program;
    ASSERT_TRUE(queue.Add(submission, now_).ok());
  };
  for (int k = 0; k < kWaiting; ++k) add(std::make_shared<FakeProgram>());
  add(program_);
  int served = 0;
  for (int k = 0; k < kSlices; ++k) {
    std::optional<Slice> slice = queue.Form(now_, 1, finished_);
    ASSERT_TRUE(slice);
    const bool is_popular = slice->program == program_;
    served += is_popular ? 1 : 0;
    now_ += absl::Milliseconds(1);
    queue.Complete(*std::move(slice), absl::OkStatus(), 1e-3, now_, finished_);
    add(is_popular ? program_ : std::make_shared<FakeProgram>());
  }
  EXPECT_GE(served, kSlices / (2 * kWaiting + 2));
}

// A second for the first slice, not for each of twenty.
TEST_F(BatchQueueTest, ALongSubmissionOfLowPriorityDoesNotWaitAnewForEverySlice) {
  Submission high = Make(absl::InfiniteDuration());
  high.priority = 1;
  high.tasks.front().slice.steps = 1'000'000;
  high.tasks.front().program = std::make_shared<FakeProgram>();
  ASSERT_TRUE(queue_.Add(high, now_).ok());
  Submission low = Make(absl::InfiniteDuration());
  low.tasks.front().slice.steps = 20;
  ASSERT_TRUE(queue_.Add(low, now_).ok());

  const absl::Time start = now_;
  while (finished_.empty() && now_ - start < absl::Seconds(30)) {
    std::optional<Slice> slice = queue_.Form(now_, 1, finished_);
    ASSERT_TRUE(slice);
    const absl::Duration took = absl::Milliseconds(1) * slice->steps;
    now_ += took;
    queue_.Complete(*std::move(slice), absl::OkStatus(), absl::ToDoubleSeconds(took), now_, finished_);
  }
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_LT(now_ - start, absl::Seconds(5));
}

}  // namespace
}  // namespace rnnserve
