// SPDX-License-Identifier: Apache-2.0
// What each engine of the server says to the recurrent nodes of an ONNX file, and how long it takes for a time step of
// all rows and directions, on one thread: the median of 100 ms of runs.
//
//   model_table FILE [STEPSxROWS ...]     1x1 32x1 32x16 unless given
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cpu/cpu_engine.h"
#include "engine/float16.h"
#include "engine/onednn/onednn_engine.h"
#include "onnx_file/inspect.h"

namespace rnnserve::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTimeEach = std::chrono::milliseconds(100);  // and at least kRunsAtLeast runs
constexpr size_t kRunsAtLeast = 5;

struct Load {
  int64_t steps = 1;
  int64_t rows = 1;
};

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
struct Direction {
  ProgramPtr program;
  std::unique_ptr<Workspace> workspace;
  std::vector<std::unique_ptr<State>> states;
  std::vector<std::byte> y;
  std::vector<SequenceSlice> slices;
};

Direction MakeDirection(ProgramPtr program, const OpSpec& spec, const Load& load, const std::vector<std::byte>& x) {
  const auto element = static_cast<std::ptrdiff_t>(ByteSize(spec.data_type));
  const std::ptrdiff_t x_row = element * spec.input_size, y_row = element * spec.hidden_size;
  Direction direction{.program = std::move(program), .workspace = nullptr, .states = {}, .y = {}, .slices = {}};
  direction.workspace = direction.program->NewWorkspace();
  direction.y.resize(static_cast<size_t>(load.steps * load.rows * y_row));
  for (std::ptrdiff_t row = 0; row < load.rows; ++row) {
    direction.states.push_back(direction.program->NewState());
    direction.slices.push_back({.x = x.data() + row * x_row,
                                .x_stride = x_row * load.rows,
                                .y = direction.y.data() + row * y_row,
                                .y_stride = y_row * load.rows,
                                .steps = load.steps,
                                .before = direction.states.back().get(),
                                .after = direction.states.back().get()});
  }
  return direction;
}

absl::StatusOr<double> UsPerStep(const std::vector<ProgramPtr>& programs, const OpSpec& spec, const Load& load) {
  const std::vector<std::byte> x = MakeInput(spec, load);
  std::vector<Direction> directions;
  for (const ProgramPtr& program : programs) directions.push_back(MakeDirection(program, spec, load, x));
  std::vector<double> runs;
  const Clock::time_point end = Clock::now() + kTimeEach;
  // The first run prepares: it is not counted.
  for (size_t run = 0; run <= kRunsAtLeast || Clock::now() < end; ++run) {
    const Clock::time_point start = Clock::now();
    for (Direction& direction : directions) {
      if (absl::Status ran = direction.program->Advance(direction.slices, *direction.workspace); !ran.ok()) return ran;
    }
    if (run > 0) runs.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::ranges::nth_element(runs, middle);
  return *middle / static_cast<double>(load.steps);
}

absl::Status PrintNode(const InspectedNode& node, const Engine& engine, const std::vector<Load>& loads) {
  const absl::StatusOr<std::vector<CellPtr>> cells = MakeCells(*node.spec, node.weights, {});
  if (!cells.ok()) return cells.status();
  std::vector<ProgramPtr> programs;
  for (const CellPtr& cell : *cells) {
    absl::StatusOr<ProgramPtr> program = engine.Compile(cell, {});
    if (!program.ok()) return program.status();
    programs.push_back(*std::move(program));
  }
  for (const Load& load : loads) {
    const absl::StatusOr<double> us = UsPerStep(programs, *node.spec, load);
    if (!us.ok()) return us.status();
    std::printf("  T=%jd N=%jd: %.4g us", static_cast<intmax_t>(load.steps), static_cast<intmax_t>(load.rows), *us);
  }
  return absl::OkStatus();
}

int Run(const std::filesystem::path& path, const std::vector<Load>& loads) {
  std::error_code missing;                                                       // Folder::Open says so
  const std::filesystem::path real = std::filesystem::canonical(path, missing);  // external data lie beside the file
  const absl::StatusOr<Folder> folder = Folder::Open(real.parent_path().string());
  const absl::StatusOr<OnnxInspection> file =
      folder.ok() ? InspectOnnx(*folder, real.filename().string()) : folder.status();
  if (!file.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), std::string(file.status().message()).c_str());
    return 1;
  }
  for (const InspectedNode& node : file->nodes) {
    std::printf("%d %s %s\n", node.number, node.op.op_type.c_str(), node.name.c_str());
    if (!node.spec) continue;
    for (const auto& engine : {MakeCpuEngine(), MakeOneDnnEngine()}) {
      std::printf("  %-7s", std::string(engine->name()).c_str());
      const absl::Status printed = PrintNode(node, *engine, loads);
      std::printf("%s\n", printed.ok() ? "" : ("  no: " + std::string(printed.message())).c_str());
    }
  }
  return 0;
}

}  // namespace
}  // namespace rnnserve::bench

int main(int argc, char** argv) {
  using rnnserve::bench::Load;
  std::vector<Load> loads;
  for (int k = 2; k < argc; ++k) {
    Load load;
    if (std::sscanf(argv[k], "%ldx%ld", &load.steps, &load.rows) != 2 || load.steps < 1 || load.rows < 1) argc = 0;
    loads.push_back(load);
  }
  if (argc < 2) {
    std::fputs("usage: model_table FILE [STEPSxROWS ...]\n", stderr);
    return 2;
  }
  if (loads.empty()) loads = {{1, 1}, {32, 1}, {32, 16}};
  return rnnserve::bench::Run(argv[1], loads);
}
