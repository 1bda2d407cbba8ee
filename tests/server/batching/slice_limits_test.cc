// SPDX-License-Identifier: Apache-2.0
// Slices of large cells are short, so that cancelled work does not go on for long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "server/batching/submission_run.h"
#include "tests/server/batching/fake_program.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;

// What runs when `count` sequences of `steps` steps go through a cell of `step_work` multiplications.
struct Sequences {
  Sequences(size_t count, int64_t steps, int64_t step_work) : x(static_cast<size_t>(steps), 1.0f), after(count) {
    for (FakeState& state : after) {
      SequenceSlice slice;
      slice.x = reinterpret_cast<const std::byte*>(x.data());
      slice.x_stride = sizeof(float);
      slice.steps = steps;
      slice.after = &state;
      submission.tasks.push_back({program, slice, step_work});
    }
  }

  absl::Status Run() {
    WorkspaceCache workspaces(1);
    ScheduleOutcome outcome;
    RunSubmission(submission, {.max_sequences = 1024, .max_steps = 8192, .max_work = 1 << 20}, false, workspaces,
                  outcome);
    return outcome.status;
  }

  std::vector<float> x;
  std::vector<FakeState> after;
  std::shared_ptr<FakeProgram> program = std::make_shared<FakeProgram>();
  Submission submission;
};

TEST(SliceLimits, CutTheStepsOfLargeCells) {
  Sequences sequences(64, 4, 1 << 20);
  ASSERT_TRUE(sequences.Run().ok());
  EXPECT_THAT(sequences.program->slice_rows(), ElementsAre(64, 64, 64, 64));
  for (const FakeState& state : sequences.after) EXPECT_EQ(state.h, 4);
}

TEST(SliceLimits, CutTheSequencesOfLargeCells) {
  Sequences sequences(130, 1, 1 << 20);
  ASSERT_TRUE(sequences.Run().ok());
  EXPECT_THAT(sequences.program->slice_rows(), ElementsAre(64, 64, 2));
}

TEST(SliceLimits, LeaveSmallCellsWhole) {
  Sequences sequences(130, 16, 64);
  ASSERT_TRUE(sequences.Run().ok());
  EXPECT_THAT(sequences.program->slice_rows(), ElementsAre(130));
}

TEST(SliceLimits, LetCancelledWorkOfALargeCellLeaveAfterOneStep) {
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  Sequences sequences(64, 16, 1 << 20);
  sequences.program = std::make_shared<FakeProgram>(FakeProgram::Hooks{.before_slice = [&] {
    cancelled->store(true);
    return absl::OkStatus();
  }});
  for (SequenceTask& task : sequences.submission.tasks) task.program = sequences.program;
  sequences.submission.cancelled = cancelled;
  EXPECT_EQ(sequences.Run().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(sequences.after[0].h, 1);
}

}  // namespace
}  // namespace rnnserve
