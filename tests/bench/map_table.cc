// SPDX-License-Identifier: Apache-2.0
// What the maps of a whole model cost beside its layers: the time of each stage, all rows of it in one slice, on one
// thread, with the layers on the engine cpu; medians of 0.2 s of runs. No server, no queue, no wire.
//
//   map_table FILE[:OUTPUT,...] [STEPSxROWS ...]     1x1 1x16 32x1 32x16 and all outputs unless given
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/cpu/cpu_engine.h"
#include "engine/float16.h"
#include "engine/map/map.h"
#include "onnx_file/loader.h"
#include "server/core/infer_run.h"

namespace rnnserve::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTimeEach = std::chrono::milliseconds(200);
constexpr size_t kRunsAtLeast = 5;

struct Size {
  int64_t steps = 1;
  int64_t rows = 1;
};

struct Loaded {
  ModelPtr model;
  LayerPrograms programs;
};

absl::StatusOr<Loaded> Load(const std::filesystem::path& path) {
  const absl::StatusOr<Folder> folder = Folder::Open(std::filesystem::canonical(path).parent_path().string());
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<OnnxStack> file = LoadOnnx(*folder, {}, path.filename().string());
  if (!file.ok()) return file.status();
  std::vector<LayerView> layers;
  for (const OnnxOperator& layer : file->layers) layers.push_back({layer.op, layer.weights});
  absl::StatusOr<StackSpec> stack = ResolveStack(layers, file->batch_first, file->pipeline, file->file_names);
  if (!stack.ok()) return stack.status();
  if (stack->pipeline == nullptr) return absl::InvalidArgumentError("the file has layers alone, no map");
  absl::StatusOr<ModelPtr> model = Model::Create(*std::move(stack), layers, "");
  if (!model.ok()) return model.status();
  Loaded loaded = {.model = *std::move(model), .programs = {}};
  const std::unique_ptr<Engine> engine = MakeCpuEngine();
  for (const ModelLayer& layer : loaded.model->layers()) {
    auto& programs = loaded.programs.emplace_back();
    for (const CellPtr& cell : layer.clipped) {
      absl::StatusOr<ProgramPtr> program = engine->Compile(cell, {});
      if (!program.ok()) return program.status();
      programs.push_back(*std::move(program));
    }
  }
  return loaded;
}

// A request: what the file has to be given, always the same numbers.
class Request {
 public:
  Request(const StackSpec& stack, const Size& load) {
    std::mt19937 random(1);
    for (const PipelineInput& input : stack.pipeline->inputs) {
      if (input.optional) continue;
      Shape shape = input.shape;
      int64_t count = 1;
      for (int64_t& size : shape) {
        size = size == kDimT ? load.steps : size == kDimN ? load.rows : size;
        count *= size;
      }
      std::vector<std::byte>& bytes = bytes_.emplace_back(static_cast<size_t>(count) * ByteSize(input.type));
      for (int64_t k = 0; k < count; ++k) {
        std::byte* const to = bytes.data() + static_cast<size_t>(k) * ByteSize(input.type);
        if (IsFloating(input.type)) {
          const float value = std::uniform_real_distribution<float>(-1, 1)(random);
          ConvertElements(DataType::kFloat, reinterpret_cast<const std::byte*>(&value), input.type, to, 1);
        } else {  // little-endian, as the server is
          const int64_t value =
              std::uniform_int_distribution<int64_t>(0, std::max<int64_t>(1, input.entries) - 1)(random);
          std::copy_n(reinterpret_cast<const std::byte*>(&value), ByteSize(input.type), to);
        }
      }
      tensors.push_back({input.name, {input.type, shape, bytes}});
    }
  }
  std::vector<NamedTensor> tensors;

 private:
  std::vector<std::vector<std::byte>> bytes_;
};

// Seconds of each stage that ran, in their order; `is_map` of each.
absl::Status RunOnce(const Loaded& loaded, const RunPlan& plan, std::vector<double>& seconds,
                     std::vector<bool>& is_map) {
  seconds.clear();
  is_map.clear();
  ByteBudget budget(int64_t{1} << 40);
  ResolvedModel model;
  model.model = loaded.model;
  InferRun run(RequestOrigin(), std::make_shared<const ResolvedModel>(std::move(model)), plan, RouteLoad(), 0,
               *budget.Take(0, 0));
  run.MakeMemory();
  while (!run.is_over()) {
    absl::StatusOr<SequenceTasks> tasks = run.StartStage(loaded.programs);
    if (!tasks.ok()) return tasks.status();
    is_map.push_back(run.in_map());
    double sum = 0;
    while (!tasks->empty()) {
      const ProgramPtr program = tasks->back().program;
      std::vector<SequenceSlice> slices;
      for (const SequenceTask& task : *tasks) {
        if (task.program == program) slices.push_back(task.slice);
      }
      const auto rest = std::ranges::remove(*tasks, program, &SequenceTask::program);
      tasks->erase(rest.begin(), rest.end());
      static thread_local std::vector<std::pair<ProgramPtr, std::unique_ptr<Workspace>>> workspaces;
      auto found = std::ranges::find(workspaces, program, &std::pair<ProgramPtr, std::unique_ptr<Workspace>>::first);
      if (found == workspaces.end()) {
        workspaces.emplace_back(program, program->NewWorkspace());
        found = workspaces.end() - 1;
        found->second->is_alone = false;
      }
      const Clock::time_point start = Clock::now();
      if (absl::Status ran = program->Advance(slices, *found->second); !ran.ok()) return ran;
      sum += std::chrono::duration<double>(Clock::now() - start).count();
    }
    seconds.push_back(sum);
    if (absl::Status finished = run.FinishStage(); !finished.ok()) return finished;
  }
  return absl::OkStatus();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

absl::Status Print(const Loaded& loaded, const std::vector<std::string>& outputs, const Size& load) {
  const StackSpec& stack = loaded.model->stack();
  const Request request(stack, load);
  const absl::StatusOr<RunPlan> plan = PlanRun(stack, request.tensors, outputs, {});
  if (!plan.ok()) return plan.status();
  std::vector<std::vector<double>> stages;
  std::vector<double> seconds;
  std::vector<bool> is_map;
  const Clock::time_point end = Clock::now() + kTimeEach;
  for (size_t run = 0; run <= kRunsAtLeast || Clock::now() < end; ++run) {
    if (absl::Status ran = RunOnce(loaded, *plan, seconds, is_map); !ran.ok()) return ran;
    if (run == 0) continue;  // it prepares
    stages.resize(seconds.size());
    for (size_t k = 0; k < seconds.size(); ++k) stages[k].push_back(seconds[k]);
  }
  double maps = 0, all = 0;
  std::string text;
  for (size_t k = 0; k < stages.size(); ++k) {
    const double us = Median(stages[k]) * 1e6 / static_cast<double>(load.steps * load.rows);
    (is_map[k] ? maps : all) += us;
    absl::StrAppend(&text, text.empty() ? "" : ", ", is_map[k] ? "map " : "layer ", us);
  }
  all += maps;
  std::printf("  T=%jd N=%jd: %.4g us a step and row, maps %.1f %% (%s)\n", static_cast<intmax_t>(load.steps),
              static_cast<intmax_t>(load.rows), all, 100 * maps / all, text.c_str());
  return absl::OkStatus();
}

int Run(const std::string& argument, const std::vector<Size>& loads) {
  const std::vector<std::string> words = absl::StrSplit(argument, absl::MaxSplits(':', 1));
  std::vector<std::string> outputs;
  if (words.size() > 1) outputs = absl::StrSplit(words[1], ',');
  absl::StatusOr<Loaded> loaded = Load(words[0]);
  std::printf("%s\n", argument.c_str());
  for (const Size& load : loads) {
    const absl::Status printed = loaded.ok() ? Print(*loaded, outputs, load) : loaded.status();
    if (printed.ok()) continue;
    std::fprintf(stderr, "map_table: %s\n", std::string(printed.message()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace rnnserve::bench

int main(int argc, char** argv) {
  std::vector<rnnserve::bench::Size> loads;
  for (int k = 2; k < argc; ++k) {
    rnnserve::bench::Size load;
    if (std::sscanf(argv[k], "%ldx%ld", &load.steps, &load.rows) != 2 || load.steps < 1 || load.rows < 1) argc = 0;
    loads.push_back(load);
  }
  if (argc < 2) {
    std::fputs("usage: map_table FILE[:OUTPUT,...] [STEPSxROWS ...]\n", stderr);
    return 2;
  }
  if (loads.empty()) loads = {{1, 1}, {1, 16}, {32, 1}, {32, 16}};
  return rnnserve::bench::Run(argv[1], loads);
}
