// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/inspect/precision.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/show.h"
#include "engine/cpu/cpu_engine.h"
#include "engine/float16.h"
#include "engine/reference/reference_engine.h"

namespace rnnserve::rnnctl::inspect {
namespace {

constexpr WeightType kKinds[] = {WeightType::kAsGiven, WeightType::kFloat16, WeightType::kBFloat16, WeightType::kInt8};
constexpr int64_t kRandomSteps = 100, kRandomRows = 2;
constexpr int kRounds = 9;
constexpr std::chrono::microseconds kRound{3000};

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

EngineOptions Options(WeightType weights) { return {.allow_reduced_precision = true, .weights = weights}; }

// [T, N, I] in the cell's type.
struct Input {
  int64_t steps = 0, rows = 0;
  std::vector<std::byte> values;
};

std::vector<std::byte> Converted(DataType from, const std::byte* source, DataType to, size_t count) {
  std::vector<std::byte> values(count * ByteSize(to));
  ConvertElements(from, source, to, values.data(), count);
  return values;
}

Input RandomInput(const OpSpec& spec) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(static_cast<size_t>(kRandomSteps * kRandomRows * spec.input_size));
  for (double& value : values) value = uniform(random);
  return {
      kRandomSteps, kRandomRows,
      Converted(DataType::kDouble, reinterpret_cast<const std::byte*>(values.data()), spec.data_type, values.size())};
}

bool Takes(const OpSpec& spec, const client::Tensor& x) {
  return (x.shape.size() == 2 || x.shape.size() == 3) && x.shape.back() == spec.input_size && IsFloating(x.type);
}

Input GivenInput(const OpSpec& spec, const client::Tensor& x) {
  const size_t count = x.bytes.size() / ByteSize(x.type);
  return {x.shape[0], x.shape.size() == 3 ? x.shape[1] : 1,
          Converted(x.type, reinterpret_cast<const std::byte*>(x.bytes.data()), spec.data_type, count)};
}

// Y [T, N, H] of a direction, from states of zeros.
absl::StatusOr<std::vector<double>> Run(const Program& program, const CellSpec& cell, const Input& input) {
  const auto element = static_cast<std::ptrdiff_t>(ByteSize(cell.data_type));
  const std::ptrdiff_t x_row = cell.input_size * element, y_row = cell.hidden_size * element;
  std::vector<std::byte> y(static_cast<size_t>(input.steps * input.rows * y_row));
  std::vector<std::unique_ptr<State>> states;
  std::vector<SequenceSlice> slices;
  for (int64_t row = 0; row < input.rows; ++row) {
    states.push_back(program.NewState());
    slices.push_back({.x = input.values.data() + row * x_row,
                      .x_stride = input.rows * x_row,
                      .y = y.data() + row * y_row,
                      .y_stride = input.rows * y_row,
                      .steps = input.steps,
                      .after = states.back().get()});
  }
  const auto workspace = program.NewWorkspace();
  if (input.steps > 0 && input.rows > 0) {
    RETURN_IF_ERROR(program.Advance(slices, *workspace));
  }
  std::vector<double> values(y.size() / static_cast<size_t>(element));
  ConvertElements(cell.data_type, y.data(), DataType::kDouble, reinterpret_cast<std::byte*>(values.data()),
                  values.size());
  return values;
}

// Adds the errors of a direction; the mean is of so many directions.
void AddErrors(const std::vector<double>& got, const std::vector<double>& want, size_t directions, Precision& to) {
  double sum = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    const double error = std::fabs(got[k] - want[k]);
    to.largest_error = std::max(to.largest_error, std::isnan(error) ? HUGE_VAL : error);
    sum += error;
  }
  if (!got.empty()) to.mean_error += sum / static_cast<double>(got.size() * directions);
}

// Steps of one row, whose state goes on.
class StepTimer {
 public:
  StepTimer(ProgramPtr program, const CellSpec& cell)
      : program_(std::move(program)),
        workspace_(program_->NewWorkspace()),
        state_(program_->NewState()),
        x_(static_cast<size_t>(cell.input_size) * ByteSize(cell.data_type)),
        y_(static_cast<size_t>(cell.hidden_size) * ByteSize(cell.data_type)) {}

  absl::Status AddRound() {
    const SequenceSlice slice = {
        .x = x_.data(), .y = y_.data(), .steps = 1, .before = state_.get(), .after = state_.get()};
    const auto begun = Clock::now();
    Microseconds passed{0};
    int64_t steps = 0;
    while (passed < kRound) {
      RETURN_IF_ERROR(program_->Advance({&slice, 1}, *workspace_));
      ++steps;
      passed = Clock::now() - begun;
    }
    rounds_.push_back(passed.count() / static_cast<double>(steps));
    return absl::OkStatus();
  }
  double Median() {
    std::nth_element(rounds_.begin(), rounds_.begin() + kRounds / 2, rounds_.end());
    return rounds_[kRounds / 2];
  }

 private:
  ProgramPtr program_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<State> state_;
  std::vector<std::byte> x_, y_;
  std::vector<double> rounds_;
};

// In turns, so that what else the machine does falls on all kinds alike.
absl::Status AddTimes(std::vector<std::pair<Precision*, StepTimer>>& timers) {
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [kind, timer] : timers) {
      RETURN_IF_ERROR(timer.AddRound());
    }
  }
  for (auto& [kind, timer] : timers) kind->step_microseconds += timer.Median();
  return absl::OkStatus();
}

absl::Status AddDirection(const CellPtr& cell, const Input& input, size_t directions, NodePrecision& node) {
  const std::unique_ptr<Engine> cpu = MakeCpuEngine();
  ASSIGN_OR_RETURN(const ProgramPtr exact, MakeReferenceEngine()->Compile(cell, {}));
  ASSIGN_OR_RETURN(const std::vector<double> want, Run(*exact, cell->spec(), input));
  std::vector<std::pair<Precision*, StepTimer>> timers;
  for (Precision& kind : node.kinds) {
    if (!kind.refused.ok()) continue;
    const EngineOptions options = Options(kind.weights);
    kind.refused = cpu->Supports(cell->spec(), options);
    if (!kind.refused.ok()) continue;
    const auto begun = Clock::now();
    absl::StatusOr<ProgramPtr> program = cpu->Compile(cell, options);
    const Microseconds packing = Clock::now() - begun;
    kind.refused = program.status();
    if (!program.ok()) continue;
    ASSIGN_OR_RETURN(const std::vector<double> got, Run(**program, cell->spec(), input));
    AddErrors(got, want, directions, kind);
    kind.packed_bytes += (*program)->packed_bytes();
    kind.packing_microseconds += packing.count();
    timers.emplace_back(&kind, StepTimer(*std::move(program), cell->spec()));
  }
  return AddTimes(timers);
}

}  // namespace

absl::StatusOr<std::vector<NodePrecision>> MeasurePrecision(const OnnxInspection& file,
                                                            const std::optional<client::Tensor>& x) {
  std::vector<NodePrecision> nodes;
  bool taken = false;
  for (const InspectedNode& node : file.nodes) {
    if (!node.status.ok()) continue;
    const bool takes = x && Takes(*node.spec, *x);
    taken = taken || takes;
    const Input input = takes ? GivenInput(*node.spec, *x) : RandomInput(*node.spec);
    ASSIGN_OR_RETURN(const std::vector<CellPtr> cells, MakeCells(*node.spec, node.weights, {}));
    NodePrecision& measured = nodes.emplace_back();
    measured.number = node.number;
    for (const WeightType kind : kKinds) measured.kinds.push_back({.weights = kind});
    for (const CellPtr& cell : cells) RETURN_IF_ERROR(AddDirection(cell, input, cells.size(), measured));
  }
  if (x && !taken) return UsageError("--input is of no node's shape: give floats [T, I] or [T, N, I] of a node's I");
  return nodes;
}

std::string ShowPrecision(const OnnxInspection& file, const std::vector<NodePrecision>& nodes) {
  std::vector<std::vector<std::string>> table = {
      {}, {"#", "WEIGHTS", "LARGEST ERROR", "MEAN ERROR", "PACKED BYTES", "US TO PACK", "US A STEP", "NODE"}};
  for (const NodePrecision& node : nodes) {
    const std::string& name = file.nodes[static_cast<size_t>(node.number - 1)].name;
    for (const Precision& kind : node.kinds) {
      std::vector<std::string> row = {absl::StrCat(node.number), std::string(WeightTypeName(kind.weights))};
      if (kind.refused.ok()) {
        row.insert(row.end(), {absl::StrFormat("%.2g", kind.largest_error), absl::StrFormat("%.2g", kind.mean_error),
                               absl::StrCat(kind.packed_bytes), absl::StrFormat("%.0f", kind.packing_microseconds),
                               absl::StrFormat("%.2f", kind.step_microseconds), name});
      } else {
        row.push_back(absl::StrCat("refused: ", kind.refused.message()));
      }
      table.push_back(std::move(row));
    }
  }
  return Printable(FormatTable(table));
}

}  // namespace rnnserve::rnnctl::inspect
