// SPDX-License-Identifier: Apache-2.0
// Submissions to a scheduler of fake programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include "server/batching/scheduler.h"
#include "tests/server/batching/fake_program.h"

namespace rnnserve {

// One sequence of ones, with room for its y and its final state.
struct Line {
  explicit Line(int64_t steps) : x(static_cast<size_t>(steps), 1.0f), y(static_cast<size_t>(steps), -1.0f) {}

  SequenceTask Task(ProgramPtr program) {
    SequenceSlice slice;
    slice.x = reinterpret_cast<const std::byte*>(x.data());
    slice.x_stride = sizeof(float);
    slice.y = reinterpret_cast<std::byte*>(y.data());
    slice.y_stride = sizeof(float);
    slice.steps = static_cast<int64_t>(x.size());
    slice.after = &after;
    return {std::move(program), slice};
  }

  std::vector<float> x, y;
  FakeState after;
};

inline Submission Of(ProgramPtr program, std::span<Line> lines, std::future<ScheduleOutcome>& outcome) {
  Submission submission;
  std::promise<ScheduleOutcome> promise;
  outcome = promise.get_future();
  for (Line& line : lines) submission.tasks.push_back(line.Task(program));
  submission.done = [promise = std::move(promise)](ScheduleOutcome result) mutable {
    promise.set_value(std::move(result));
  };
  return submission;
}

}  // namespace rnnserve
