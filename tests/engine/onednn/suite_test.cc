// SPDX-License-Identifier: Apache-2.0
// What every engine must hold, in the types that oneDNN has.
#include "engine/onednn/onednn_engine.h"
#include "engine/onednn/recurrence.h"
#include "tests/engine/support/differential_suite.h"
#include "tests/engine/support/engine_suite.h"

namespace rnnserve {
namespace {

std::vector<EngineCase> Cases() {
  std::vector<EngineCase> cases = {{.name = "onednn", .make = &MakeOneDnnEngine, .type = DataType::kFloat}};
  if (onednn::CpuMultipliesBFloat16()) {
    cases.push_back({.name = "onednn",
                     .make = &MakeOneDnnEngine,
                     .type = DataType::kBFloat16,
                     .tolerance = 3e-2,
                     .options = {.allow_reduced_precision = true}});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(OneDnn, EngineSuite, testing::ValuesIn(Cases()), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(OneDnn, DifferentialSuite, testing::ValuesIn(Cases()), EngineCaseName);

}  // namespace
}  // namespace rnnserve
