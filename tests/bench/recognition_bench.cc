// SPDX-License-Identifier: Apache-2.0
// What inline weights cost that have come before: finding the model with the same content, with nothing packed.
//   build/release/tests/bench/recognition_bench --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <vector>

#include "engine/cpu/cpu_engine.h"
#include "server/batching/cellular_scheduler.h"
#include "server/core/core.h"

namespace rnnserve {
namespace {

NamedTensor Tensor(std::string_view name, Shape shape, const std::vector<float>& values) {
  return {std::string(name), {DataType::kFloat, std::move(shape), std::as_bytes(std::span(values))}};
}

// An LSTM of H units and H inputs: 32 H² bytes of weights.
void RecognisesInlineWeights(benchmark::State& state) {
  const int64_t units = state.range(0);
  const std::vector<float> weights(static_cast<size_t>(4 * units * units), 0.5f), x(static_cast<size_t>(units));
  OperatorDef op;
  op.op_type = "LSTM";
  op.version = 22;
  op.attributes["hidden_size"] = units;
  InferCall call;
  call.target = op;
  call.inputs = {Tensor("X", {1, 1, units}, x), Tensor("W", {1, 4 * units, units}, weights),
                 Tensor("R", {1, 4 * units, units}, weights)};

  const std::unique_ptr<Engine> engine = MakeCpuEngine();
  ModelStore models{{}};
  ProgramCache programs(int64_t{1} << 30);
  CellularScheduler scheduler({.workers = 1});
  Core core({}, {engine.get()}, &models, &programs, &scheduler);
  absl::StatusOr<InferRunPtr> first = core.Accept(call);
  if (!first.ok() || !programs.Get(*engine, (*first)->call().resolved->cells(0).front(), {}).ok())
    return state.SkipWithError("not accepted");
  const ModelPtr known = (*first)->call().resolved->model;
  const int64_t packed = programs.bytes();
  for (auto _ : state) {
    const absl::StatusOr<InferRunPtr> again = core.Accept(call);
    if (!again.ok() || (*again)->takes_long()) return state.SkipWithError("not accepted");
    if ((*again)->call().resolved->model != known) return state.SkipWithError("not recognised");
  }
  if (programs.bytes() != packed) state.SkipWithError("packed again");
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * weights.size() * sizeof(float)));
}

BENCHMARK(RecognisesInlineWeights)->ArgName("H")->Arg(128)->Arg(512)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rnnserve

BENCHMARK_MAIN();
