// SPDX-License-Identifier: Apache-2.0
// Advance of the cpu and the onednn engine on one thread, I = H, forward, float32, arguments T, N, H; next to oneDNN's
// own LSTM primitive made for the very shape.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/cpu_engine.h"
#include "engine/float16.h"
#include "engine/onednn/onednn_engine.h"
#include "engine/onednn/recurrence.h"
#include "tests/bench/engines/timed_cell.h"

namespace rnnserve {
namespace {

std::vector<float> Random(std::mt19937& random, size_t count, float bound) {
  std::uniform_real_distribution<float> uniform(-bound, bound);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

CellSpec DefaultSpec(CellKind kind, int64_t units) {
  CellSpec spec;
  spec.kind = kind;
  spec.input_size = spec.hidden_size = units;
  const Activation sigmoid{ActivationKind::kSigmoid, 0, 0}, tanh{ActivationKind::kTanh, 0, 0};
  if (kind == CellKind::kLstm) spec.activations = {sigmoid, tanh, tanh};
  if (kind == CellKind::kGru) spec.activations = {sigmoid, tanh, {}};
  if (kind == CellKind::kRnn) spec.activations = {tanh, {}, {}};
  return spec;
}

CellPtr RandomCell(const CellSpec& spec, std::mt19937& random) {
  const auto units = static_cast<size_t>(spec.hidden_size);
  const auto gates = static_cast<size_t>(GateCount(spec.kind)) * units;
  const float bound = 1 / std::sqrt(static_cast<float>(units));
  CellWeights<float> weights;
  weights.w = Random(random, gates * units, bound);
  weights.r = Random(random, gates * units, bound);
  weights.wb = Random(random, gates, bound);
  weights.rb = Random(random, gates, bound);
  if (spec.has_peephole) weights.p = Random(random, 3 * units, bound);
  return std::make_shared<Cell>(spec, std::move(weights));
}

// Only what a cell needs: reduced precision is for bfloat16 cells on oneDNN.
constexpr EngineOptions kReduced = {.allow_reduced_precision = true};

constexpr EngineOptions Narrow(WeightType weights) { return {.allow_reduced_precision = true, .weights = weights}; }

using MakeEngine = std::unique_ptr<Engine>();

// Of row `row`: as many as there are; any number up to that; or so for the first row and a third at most for others.
enum class Lengths { kAll, kRagged, kOneLong };

int64_t LengthOf(Lengths lengths, size_t row, int64_t steps, std::mt19937& random) {
  if (lengths == Lengths::kAll || (lengths == Lengths::kOneLong && row == 0)) return steps;
  const int64_t most = lengths == Lengths::kRagged ? steps : steps * 32 / 100;
  return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(most));
}

void Advance(benchmark::State& run, MakeEngine make, CellSpec spec, Lengths lengths, EngineOptions options) {
  const int64_t steps = run.range(0), units = run.range(2);
  const auto rows = static_cast<size_t>(run.range(1));
  std::mt19937 random(1);
  spec.input_size = spec.hidden_size = units;
  const ProgramPtr program = make()->Compile(RandomCell(spec, random), options).value();
  const size_t values = static_cast<size_t>(steps * units) * rows;
  const std::vector<float> exact = Random(random, values, 1);
  std::vector<std::byte> x(values * ByteSize(spec.data_type)), y(x.size());
  ConvertElements(DataType::kFloat, reinterpret_cast<const std::byte*>(exact.data()), spec.data_type, x.data(), values);
  std::vector<std::unique_ptr<State>> states;
  std::vector<SequenceSlice> slices(rows);
  const auto row_bytes = static_cast<std::ptrdiff_t>(ByteSize(spec.data_type)) * units;
  for (size_t row = 0; row < rows; ++row) {
    const auto first = static_cast<std::ptrdiff_t>(row) * row_bytes;
    states.push_back(program->NewState());
    slices[row] = {.x = x.data() + first,
                   .x_stride = row_bytes * static_cast<std::ptrdiff_t>(rows),
                   .y = y.data() + first,
                   .y_stride = row_bytes * static_cast<std::ptrdiff_t>(rows),
                   .steps = LengthOf(lengths, row, steps, random),
                   .before = states.back().get(),
                   .after = states.back().get()};
  }
  int64_t real_steps = 0;
  for (const SequenceSlice& slice : slices) real_steps += slice.steps;
  const auto workspace = program->NewWorkspace();
  // oneDNN makes its primitives in the first run.
  if (!program->Advance(slices, *workspace).ok()) run.SkipWithError("Advance failed");
  for (auto _ : run) {
    if (!program->Advance(slices, *workspace).ok()) run.SkipWithError("Advance failed");
  }
  run.counters["steps"] = static_cast<double>(real_steps);
  const auto operations = static_cast<double>(real_steps * 4 * GateCount(spec.kind) * units * units);
  run.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void OneDnn(benchmark::State& run) {
  const int64_t steps = run.range(0), rows = run.range(1), units = run.range(2);
  const auto lstm = bench::MakeOneDnnPrimitive({CellKind::kLstm, steps, rows, units}, 1, false).value();
  for (auto _ : run) lstm->Run();
  run.counters["GFLOP/s"] = benchmark::Counter(static_cast<double>(steps * rows * 16 * units * units) * 1e-9,
                                               benchmark::Counter::kIsIterationInvariantRate);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"T", "N", "H"})->Unit(benchmark::kMicrosecond);
  for (const int64_t units : {128, 256, 512, 1024}) bench->Args({1, 1, units});
  bench->Args({1, 32, 512})->Args({1, 64, 1024})->Args({32, 1, 512})->Args({32, 16, 256});
  bench->Args({64, 32, 512})->Args({100, 1, 256})->Args({16, 64, 1024});
}

CellSpec With(CellKind kind, void (*change)(CellSpec&)) {
  CellSpec spec = DefaultSpec(kind, 1);
  change(spec);
  return spec;
}

void Register(const std::string& name, const CellSpec& spec, bool both_engines, Lengths lengths = Lengths::kAll) {
  const auto add = [&](const std::string& engine, MakeEngine make) {
    benchmark::RegisterBenchmark((name + "/" + engine).c_str(), Advance, make, spec, lengths, kReduced)->Apply(Shapes);
  };
  add("cpu", &MakeCpuEngine);
  if (both_engines) add("onednn", &MakeOneDnnEngine);
}

// Single steps of one row and of a few, beside float32.
void RegisterNarrow(const std::string& name, CellKind kind) {
  for (const WeightType type : {WeightType::kAsGiven, WeightType::kFloat16, WeightType::kBFloat16, WeightType::kInt8}) {
    const std::string full = name + "_narrow/" + std::string(WeightTypeName(type));
    benchmark::RegisterBenchmark(full.c_str(), Advance, &MakeCpuEngine, DefaultSpec(kind, 1), Lengths::kAll,
                                 Narrow(type))
        ->ArgNames({"T", "N", "H"})
        ->Unit(benchmark::kMicrosecond)
        ->ArgsProduct({{1}, {1}, {128, 256, 512, 1024}})
        ->ArgsProduct({{1}, {4, 8, 32}, {512}});
  }
}

void RegisterAll() {
  RegisterNarrow("lstm", CellKind::kLstm);
  RegisterNarrow("gru", CellKind::kGru);
  Register("lstm", DefaultSpec(CellKind::kLstm, 1), true);
  benchmark::RegisterBenchmark("lstm/primitive", OneDnn)->Apply(Shapes);
  Register("gru", DefaultSpec(CellKind::kGru, 1), true);
  Register("gru_linear_before_reset", With(CellKind::kGru, [](CellSpec& spec) { spec.linear_before_reset = true; }),
           true);
  Register("rnn", DefaultSpec(CellKind::kRnn, 1), true);
  Register("lstm_ragged", DefaultSpec(CellKind::kLstm, 1), true, Lengths::kRagged);
  // 374 real steps of 1,932 with padding.
  for (const auto& [name, lengths] : {std::pair("lstm_one_long", Lengths::kOneLong), {"lstm_padded", Lengths::kAll}}) {
    benchmark::RegisterBenchmark(name, Advance, &MakeCpuEngine, DefaultSpec(CellKind::kLstm, 1), lengths, kReduced)
        ->ArgNames({"T", "N", "H"})
        ->Unit(benchmark::kMicrosecond)
        ->ArgsProduct({{69}, {28}, {128, 256, 512}});
  }
  Register("lstm_peephole_clip",
           With(CellKind::kLstm,
                [](CellSpec& spec) {
                  spec.has_peephole = true;
                  spec.clip = 3;
                  spec.clip_cell_input = true;
                }),
           false);
  Register("lstm_coupled", With(CellKind::kLstm, [](CellSpec& spec) { spec.input_forget = true; }), false);
  Register("lstm_hard",
           With(CellKind::kLstm,
                [](CellSpec& spec) {
                  const Activation softsign = {ActivationKind::kSoftsign, 0, 0};
                  spec.activations = {Activation{ActivationKind::kHardSigmoid, 0.2, 0.5}, softsign, softsign};
                }),
           false);
  Register("gru_clip", With(CellKind::kGru, [](CellSpec& spec) { spec.clip = 3; }), false);
  Register("lstm_float16", With(CellKind::kLstm, [](CellSpec& spec) { spec.data_type = DataType::kFloat16; }), false);
  Register("lstm_bfloat16", With(CellKind::kLstm, [](CellSpec& spec) { spec.data_type = DataType::kBFloat16; }),
           onednn::CpuMultipliesBFloat16());
}

}  // namespace
}  // namespace rnnserve

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  rnnserve::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
}
