// SPDX-License-Identifier: Apache-2.0
#include "server/routing/routing_trial.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "engine/float16.h"

namespace rnnserve {
namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();
// Inputs, and outputs, of a trial; where rows and steps do not fit they lie on top of each other.
constexpr int64_t kBufferBytes = int64_t{4} << 20;

// Elements of all rows and steps, as far as they fit.
class TrialBuffer {
 public:
  TrialBuffer(const CellSpec& cell, int64_t elements, int64_t rows, int64_t steps)
      : item_(std::max<int64_t>(elements, 1) * static_cast<int64_t>(ByteSize(cell.data_type))) {
    const int64_t room = std::max<int64_t>(kBufferBytes / item_, 1);
    step_stride_ = steps <= room ? item_ : 0;
    row_stride_ = rows * steps <= room ? item_ * steps : 0;
    const int64_t items = row_stride_ > 0 ? rows * steps : step_stride_ > 0 ? steps : 1;
    const std::vector<float> values(static_cast<size_t>(std::max<int64_t>(elements, 1)), 0.25f);
    bytes_.resize(static_cast<size_t>(items * item_));
    for (int64_t k = 0; k < items; ++k) {
      ConvertElements(DataType::kFloat, reinterpret_cast<const std::byte*>(values.data()), cell.data_type,
                      bytes_.data() + k * item_, values.size());
    }
  }
  std::byte* row(int64_t k) { return bytes_.data() + k * row_stride_; }
  std::ptrdiff_t step_stride() const { return step_stride_; }

 private:
  int64_t item_;
  std::ptrdiff_t step_stride_, row_stride_;
  std::vector<std::byte> bytes_;
};

// One program with all it needs to run.
class Runner {
 public:
  Runner(ProgramPtr program, TrialBuffer& x, TrialBuffer& y, const RouteShape& shape, const TrialClocks& clocks)
      : program_(std::move(program)),
        workspace_(program_->NewWorkspace()),
        clock_(program_->waits() ? clocks.wall : clocks.thread) {
    workspace_->is_alone = !shape.is_shared;  // the scheduler gives shared rows one thread
    for (int64_t row = 0; row < shape.rows; ++row) {
      State* state = states_.emplace_back(program_->NewState()).get();
      slices_.push_back({.x = x.row(row),
                         .x_stride = x.step_stride(),
                         .y = y.row(row),
                         .y_stride = y.step_stride(),
                         .before = nullptr,
                         .after = state});
    }
  }

  // Infinity once a run has failed.
  double Seconds(int64_t steps) {
    if (failed_) return kFailed;
    for (SequenceSlice& slice : slices_) slice.steps = steps;
    const absl::Duration start = clock_();
    failed_ = !program_->Advance(slices_, *workspace_).ok();
    return failed_ ? kFailed : absl::ToDoubleSeconds(clock_() - start);
  }

 private:
  const ProgramPtr program_;
  const std::unique_ptr<Workspace> workspace_;
  const RouteClock& clock_;
  std::vector<std::unique_ptr<State>> states_;
  std::vector<SequenceSlice> slices_;
  bool failed_ = false;
};

// Warms all of them up with one step, and finds how many steps a run may have.
int64_t AffordableSteps(std::deque<Runner>& runners, int64_t steps, const TrialLimits& limits) {
  double slowest = 0;
  for (Runner& runner : runners) {
    runner.Seconds(1);
    const double seconds = runner.Seconds(1);
    if (seconds < kFailed) slowest = std::max(slowest, seconds);
  }
  const double limit = absl::ToDoubleSeconds(limits.run);
  if (static_cast<double>(steps) * slowest <= limit) return steps;
  return std::clamp<int64_t>(static_cast<int64_t>(limit / slowest), std::min(steps, limits.least_steps), steps);
}

// A quarter of the values are below: runs that something else interrupted do not count, nor does a lucky one.
double LowerQuartile(std::vector<double>& values) {
  const auto quarter = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  std::ranges::nth_element(values, quarter);
  return *quarter;
}

}  // namespace

absl::Duration SteadyTime() { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }

absl::Duration ThreadTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

std::vector<double> TimePrograms(std::span<const ProgramPtr> programs, const CellSpec& cell, const RouteShape& shape,
                                 const TrialLimits& limits, const TrialClocks& clocks) {
  const absl::Duration end = clocks.wall() + limits.total;
  TrialBuffer x(cell, cell.input_size, shape.rows, shape.steps), y(cell, cell.hidden_size, shape.rows, shape.steps);
  std::deque<Runner> runners;
  for (const ProgramPtr& program : programs) runners.emplace_back(program, x, y, shape, clocks);
  const int64_t steps = AffordableSteps(runners, shape.steps, limits);
  for (Runner& runner : runners) {
    if (steps > 1) runner.Seconds(steps);
  }
  std::vector<std::vector<double>> turns(runners.size());
  for (int round = 0; round < limits.most_rounds && (round < limits.least_rounds || clocks.wall() < end); ++round) {
    for (size_t k = 0; k < runners.size(); ++k) {
      // The first run of a turn brings the program's weights back to where they are when it runs alone.
      runners[k].Seconds(steps);
      turns[k].push_back(runners[k].Seconds(steps) / static_cast<double>(steps));
    }
  }
  std::vector<double> quartiles;
  for (std::vector<double>& of : turns) quartiles.push_back(LowerQuartile(of));
  return quartiles;
}

}  // namespace rnnserve
