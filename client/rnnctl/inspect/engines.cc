// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/inspect/engines.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/cpu/cpu_engine.h"
#include "engine/float16.h"
#include "engine/reference/reference_engine.h"
#ifdef RNNSERVE_HAS_ONEDNN
#include "engine/onednn/onednn_engine.h"
#endif

namespace rnnserve::rnnctl::inspect {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kOracle = "reference";
constexpr auto kTimeEach = std::chrono::milliseconds(100);  // per engine and load, at least kRunsAtLeast runs
constexpr int64_t kMaxElements = int64_t{1} << 28;          // of one run, input and output
constexpr size_t kRunsAtLeast = 5;

std::string Refusal(const Engine& engine, const OpSpec& spec) {
  for (const CellSpec& cell : CellSpecs(spec, {})) {
    const absl::Status supports = engine.Supports(cell, {});
    if (!supports.ok()) return std::string(supports.message());
  }
  return "";
}

// X of [steps, rows, I], always the same numbers.
std::vector<std::byte> MakeInput(const OpSpec& spec, const Load& load) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> exact(static_cast<size_t>(load.steps * load.rows * spec.input_size));
  for (float& value : exact) value = uniform(random);
  std::vector<std::byte> x(exact.size() * ByteSize(spec.data_type));
  ConvertElements(DataType::kFloat, reinterpret_cast<const std::byte*>(exact.data()), spec.data_type, x.data(),
                  exact.size());
  return x;
}

// One direction of the operator, ready to run.
struct Lane {
  ProgramPtr program;
  std::unique_ptr<Workspace> workspace;
  std::vector<std::unique_ptr<State>> states;
  std::vector<std::byte> y;
  std::vector<SequenceSlice> slices;
};

Lane MakeLane(ProgramPtr program, const OpSpec& spec, const Load& load, const std::vector<std::byte>& x) {
  const auto element = static_cast<std::ptrdiff_t>(ByteSize(spec.data_type));
  const std::ptrdiff_t x_row = element * spec.input_size, y_row = element * spec.hidden_size;
  Lane lane{.program = std::move(program), .workspace = nullptr, .states = {}, .y = {}, .slices = {}};
  lane.workspace = lane.program->NewWorkspace();
  lane.y.resize(static_cast<size_t>(load.steps * load.rows * y_row));
  for (std::ptrdiff_t row = 0; row < load.rows; ++row) {
    lane.states.push_back(lane.program->NewState());
    lane.slices.push_back({.x = x.data() + row * x_row,
                           .x_stride = x_row * load.rows,
                           .y = lane.y.data() + row * y_row,
                           .y_stride = y_row * load.rows,
                           .steps = load.steps,
                           .before = lane.states.back().get(),
                           .after = lane.states.back().get()});
  }
  return lane;
}

// The median of many runs.
absl::StatusOr<double> UsPerStep(const std::vector<ProgramPtr>& programs, const OpSpec& spec, const Load& load) {
  const std::vector<std::byte> x = MakeInput(spec, load);
  std::vector<Lane> lanes;
  for (const ProgramPtr& program : programs) lanes.push_back(MakeLane(program, spec, load, x));
  std::vector<double> runs;
  const Clock::time_point end = Clock::now() + kTimeEach;
  // The first run prepares: it is not counted.
  for (size_t run = 0; run <= kRunsAtLeast || Clock::now() < end; ++run) {
    const Clock::time_point start = Clock::now();
    for (Lane& lane : lanes) {
      if (absl::Status ran = lane.program->Advance(lane.slices, *lane.workspace); !ran.ok()) return ran;
    }
    if (run > 0) runs.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::ranges::nth_element(runs, middle);
  return *middle / static_cast<double>(load.steps);
}

}  // namespace

Engines::Engines() {
  engines_.push_back(MakeCpuEngine());
#ifdef RNNSERVE_HAS_ONEDNN
  engines_.push_back(MakeOneDnnEngine());
#endif
  engines_.push_back(MakeReferenceEngine());
}

std::vector<EngineAnswer> Engines::Ask(const OpSpec& spec) const {
  std::vector<EngineAnswer> answers;
  for (const auto& engine : engines_) {
    answers.push_back({.engine = std::string(engine->name()), .refusal = Refusal(*engine, spec), .us_per_step = {}});
  }
  return answers;
}

absl::StatusOr<std::vector<EngineAnswer>> Engines::Measure(const OpSpec& spec, std::span<const NamedTensor> weights,
                                                           std::span<const Load> loads) const {
  const absl::StatusOr<std::vector<CellPtr>> cells = MakeCells(spec, weights, {});
  if (!cells.ok()) return cells.status();
  std::vector<EngineAnswer> answers = Ask(spec);
  for (const Load& load : loads) {
    if (load.steps * load.rows > kMaxElements / (spec.input_size + spec.hidden_size)) {
      return absl::InvalidArgumentError(absl::StrCat(
          load.steps, " steps of ", load.rows, " rows take too much memory for an operator of I = ", spec.input_size,
          ", H = ", spec.hidden_size));
    }
  }
  for (size_t k = 0; k < engines_.size(); ++k) {
    if (!answers[k].refusal.empty() || answers[k].engine == kOracle) continue;
    std::vector<ProgramPtr> programs;
    for (const CellPtr& cell : *cells) {
      absl::StatusOr<ProgramPtr> program = engines_[k]->Compile(cell, {});
      if (!program.ok()) return program.status();
      programs.push_back(*std::move(program));
    }
    for (const Load& load : loads) {
      const absl::StatusOr<double> time = UsPerStep(programs, spec, load);
      if (!time.ok()) return time.status();
      answers[k].us_per_step.push_back(*time);
    }
  }
  return answers;
}

std::vector<std::string> Candidates(std::span<const EngineAnswer> answers) {
  std::vector<std::string> names;
  for (const EngineAnswer& answer : answers) {
    if (answer.refusal.empty() && (answer.engine != kOracle || names.empty())) names.push_back(answer.engine);
  }
  return names;
}

std::string Fastest(std::span<const EngineAnswer> answers, size_t load) {
  const EngineAnswer* best = nullptr;
  for (const EngineAnswer& answer : answers) {
    if (load >= answer.us_per_step.size()) continue;
    if (best == nullptr || answer.us_per_step[load] < best->us_per_step[load]) best = &answer;
  }
  return best == nullptr ? "" : best->engine;
}

}  // namespace rnnserve::rnnctl::inspect
