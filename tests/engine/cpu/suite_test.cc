// SPDX-License-Identifier: Apache-2.0
// What every engine must hold, with the same bits whatever shares the batch, unless the CPU has tiles: there
// DeterministicRunsGiveTheSameBits alone asks for them.
#include <string>
#include <vector>

#include "engine/cpu/cpu_engine.h"
#include "engine/cpu/tile_product.h"
#include "tests/engine/support/differential_suite.h"
#include "tests/engine/support/engine_suite.h"

namespace rnnserve {
namespace {

// Errors over random operators, whose functions may have any slope, against their exact weights.
std::vector<EngineCase> NarrowCases() {
  std::vector<EngineCase> cases;
  const auto add = [&](WeightType weights, DataType type, double tolerance) {
    const std::string name = "cpu_weights_" + std::string(WeightTypeName(weights));
    const EngineOptions options = {.allow_reduced_precision = true, .weights = weights};
    const bool has_tiles = weights == WeightType::kBFloat16 && cpu::HasTiles();
    cases.push_back({name, &MakeCpuEngine, type, tolerance, !has_tiles, options});
  };
  add(WeightType::kFloat16, DataType::kFloat, 3e-3);
  add(WeightType::kBFloat16, DataType::kFloat, 3e-2);
  add(WeightType::kInt8, DataType::kFloat, 3e-2);
  add(WeightType::kInt8, DataType::kFloat16, 3e-2);
  return cases;
}

std::vector<EngineCase> Cases() { return EngineCases("cpu", &MakeCpuEngine, !cpu::HasTiles()); }

INSTANTIATE_TEST_SUITE_P(CpuNarrow, EngineSuite, testing::ValuesIn(NarrowCases()), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(CpuNarrow, DifferentialSuite, testing::ValuesIn(NarrowCases()), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(Cpu, EngineSuite, testing::ValuesIn(Cases()), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(Cpu, DifferentialSuite, testing::ValuesIn(Cases()), EngineCaseName);

}  // namespace
}  // namespace rnnserve
